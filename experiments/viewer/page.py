"""The viewer as HTML: ``fragment`` for embedding in another page, ``page`` as a separate page.

Both contain styles, scripts and compressed episodes: an index of all, loaded at once, and blocks
that are loaded when an episode is opened. The index is stored by column (``step: [..]``) and a
block is a list of episodes, so thousands of episodes fit into megabytes.

Text from models and environments is embedded as JSON, and displayed as text, never as HTML.
"""

import base64
import gzip
import html
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from tokenizers import Tokenizer

from turngrid.envs.utils.printable import REPLACEMENT, printable
from turngrid.experiments.viewer.sources import TOKENIZER, Shown
from turngrid.records.credit import pack_runs

LIMIT = 5000  # episodes
SCRIPTS = ("store", "colour", "filters", "list", "tokens", "strip", "graph", "episode", "viewer")
BLOCK = 32  # episodes, which a browser unpacks in some milliseconds
WORD_START = "\u2581"  # how SentencePiece writes the space before a word
NATS = 1000  # log-probabilities are rounded to thousandths of a nat


def fragment(episodes: Iterable[Shown], *, limit: int = LIMIT, note: str = "") -> str:
    """Return the viewer of the first ``limit`` episodes, for embedding in an HTML body.

    A page may hold several. The viewer's styles and the page's do not affect each other; it follows
    the page's ``color-scheme``. Its height is 85 % of the window's, or ``--viewer-height``.
    ``#<Shown.address>`` in the page's address opens that episode.
    """
    index, packed = _pack(islice(episodes, limit))
    blocks = "\n".join(f'<script type="application/gzip" class="block">{block}</script>' for block in packed)
    program = "\n".join(asset(f"{name}.js") for name in SCRIPTS)
    return f"""<div class="turngrid-viewer" data-note="{html.escape(note)}">
<noscript>The trajectory viewer needs JavaScript.</noscript>
<script type="application/gzip" class="index">{index}</script>
{blocks}
<template class="styles"><style>
{asset("viewer.css")}</style></template>
</div>
<script>
(() => {{
"use strict";
{program}
}})();
</script>
"""


def page(episodes: Iterable[Shown], title: str, *, limit: int = LIMIT, note: str = "") -> str:
    """Return a complete HTML page, as high as the window."""
    titled = asset("page.html").replace("{{title}}", html.escape(title))
    return titled.replace("{{viewer}}", fragment(episodes, limit=limit, note=note))


@cache
def asset(name: str) -> str:
    return (files("turngrid.experiments.viewer") / "assets" / name).read_text(encoding="utf-8")


def _pack(shown: Iterator[Shown]) -> tuple[str, list[str]]:
    """Return the index and the blocks, each as ``squeeze`` writes it."""
    blocks: list[str] = []
    rows: list[dict[str, Any]] = []
    used: dict[str, set[int]] = {}  # text of a tokenizer.json, which runs may share -> ids of its tokens
    while block := list(islice(shown, BLOCK)):
        for item in block:
            text = _text(item.tokenizer / TOKENIZER) if item.tokenizer else None
            if text is not None:
                turns = item.episode.turns
                ids = used.setdefault(text, set(item.episode.prompt_ids))
                ids.update(item.episode.prompt_ids, *((*t.prompt_ids, *t.action_ids, *t.context_ids) for t in turns))
            rows.append(_row(item) | {"words": -1 if text is None else list(used).index(text)})
        blocks.append(squeeze([_episode(item) for item in block]))
    columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
    vocabularies = [words(Tokenizer.from_str(text), ids) for text, ids in used.items()]
    return squeeze({"block": BLOCK, "nats": NATS, "columns": columns, "words": vocabularies}), blocks


def squeeze(data: Any) -> str:
    """Return base64 of gzip of JSON, which is safe in HTML and which browsers unpack."""
    return base64.b64encode(gzip.compress(msgspec.json.encode(data), compresslevel=6, mtime=0)).decode("ascii")


def _row(shown: Shown) -> dict[str, Any]:
    episode, credit = shown.episode, shown.credit
    totals: Counter[str] = Counter()
    for turn in episode.turns:
        totals.update(turn.rewards)
    task, _, game = episode.task.rpartition("/")
    trained = sum(turn.trained(shown.reward) for turn in episode.turns) if shown.reward else sum(totals.values())
    series = (credit.advantages, credit.returns, credit.values) if credit else ((), (), ())
    return {
        "address": shown.address,
        "run": shown.run,
        "stage": shown.stage,
        "task": printable(task),
        "game": printable(game),
        "step": episode.step,
        "sample": episode.sample,
        "outcome": episode.outcome.value,
        "turns": len(episode.played_turns),
        "tokens": sum(len(turn.action_ids) for turn in episode.turns),
        "invalid": sum(not turn.valid for turn in episode.turns),
        "unparsed": sum(not turn.parsed for turn in episode.turns),
        "rewards": {name: _short(total) for name, total in totals.items()},
        "trained": _short(trained) if episode.trained else None,
        "parent": episode.parent,
        "replaced": shown.replaced,
        "peaks": [_short(max((abs(x) for x in numbers if x is not None), default=0.0)) for numbers in series],
    }


def _short(number: float) -> float:
    return float(f"{number:.5g}")


def _episode(shown: Shown) -> dict[str, Any]:
    """Return the record of ``Episode.to_dict`` in printable text, with the credit of its turns."""
    episode = shown.episode
    record = _plain(episode.to_dict())
    for turn, own, credit in zip(record["turns"], episode.turns, _by_turn(shown), strict=True):
        turn |= {"logprobs": [round(number * NATS) for number in own.logprobs], **credit}
        turn.pop("entropies", None)  # not shown
    answers = [index for index, message in enumerate(episode.messages) if message["role"] == "assistant"]
    record["messages"] = record["messages"][: [*answers, None][len(episode.prefix)]]  # later ones repeat the turns
    return record | {"again": [[step, None if number is None else _short(number)] for step, number in shown.again]}


def _plain(value: Any) -> Any:
    """Return plain JSON values with all text made printable."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, float):
        return _short(value)
    if isinstance(value, dict):
        return {printable(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and not {*map(type, value)} <= {int, float}:  # else numbers of tokens
        return [_plain(item) for item in value]
    return value


def _by_turn(shown: Shown) -> Iterator[dict[str, Any]]:
    """Yield each turn's part of the episode's credit; nothing if the episode has none."""
    turns, credit = shown.episode.turns, shown.credit
    series = {name: getattr(credit, name) for name in ("advantages", "returns", "values")} if credit else {}
    layers = credit.layers if credit and all(len(layer) == len(turns) for layer in credit.layers.values()) else {}
    start = 0
    for index, turn in enumerate(turns):
        muted = shown.episode.muted(turn)
        end = start + len(turn.action_ids) - muted
        credits: dict[str, Any] = {
            name: pack_runs([None] * muted + list(line[start:end])) for name, line in series.items() if line
        }
        for name, rows in (("layers", layers), ("compared", shown.compared)):
            credits |= {name: {key: _short(row[index]) for key, row in rows.items()}} if rows else {}
        yield credits
        start = end


@cache
def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def words(tokenizer: Tokenizer, ids: Iterable[int]) -> dict[int, str]:
    """Return the texts of tokens by id; half a character as the tokenizer's file writes it."""
    return {token: _word(tokenizer, token) for token in sorted(ids)}


def _word(tokenizer: Tokenizer, token: int) -> str:
    raw = tokenizer.id_to_token(token)
    if raw is None:
        return f"<{token}>"
    text = printable(tokenizer.decode([token], skip_special_tokens=False))
    if REPLACEMENT in text:  # an incomplete UTF-8 sequence decodes to it
        return raw
    return f" {text}" if raw.startswith(WORD_START) and not text.startswith(" ") else text or raw
