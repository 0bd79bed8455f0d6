"""Find the tokenizer of a run's episodes and decode the tokens that a page shows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

from tokenizers import Tokenizer

from turngrid.envs.games.catalogue import cache_root
from turngrid.envs.utils.printable import REPLACEMENT, printable
from turngrid.records.models.locate import ASSET, PACKAGED, local_folder
from turngrid.records.resume import RlFolder
from turngrid.records.run_folder import composed
from turngrid.rollouts.episode import Episode

FILE = "tokenizer.json"
WORD_START = "\u2581"  # how SentencePiece writes the space before a word


def tokenizer_of(run: Path, policy: str = "") -> Path | None:
    """Return a folder with ``tokenizer.json``, of a checkpoint or of the first model; None if none
    has it.

    Args:
        run: a run folder, or the folder of an evaluation without a run.
        policy: the policy whose tokenizer to use, if an evaluation compares several models.
    """
    return next((folder for folder in _candidates(run, policy) if (folder / FILE).exists()), None)


def _candidates(run: Path, policy: str) -> Iterator[Path]:
    rl = RlFolder(run)
    if step := rl.saved_step():
        yield rl.model(step)
    yield run / "sft" / "model"
    for name in (*_models_of_policies(run, policy), str(composed(run).get("model", {}).get("path") or "")):
        if folder := _folder(name):
            yield folder


def _models_of_policies(run: Path, policy: str) -> list[str]:
    result = run / "result.json"
    content = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {}
    return [entry.get("path", "") for entry in content.get("policies", []) if entry.get("name") == policy]


def _folder(model: str) -> Path | None:
    """Return the local folder of a ``model.path``, without downloading."""
    if model.startswith(ASSET):
        return Path(str(files("turngrid.assets"))) / model.removeprefix(ASSET)
    if model.startswith(PACKAGED):
        return cache_root() / "models" / model.removeprefix(PACKAGED)
    if not model or (folder := local_folder(model)):
        return folder if model else None
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(model, FILE)  # an earlier download
    return Path(cached).parent if isinstance(cached, str) else None


class Vocabularies:
    """The tokens that a page uses; runs with equal ``tokenizer.json`` share a vocabulary."""

    def __init__(self) -> None:
        self._used: dict[str, set[int]] = {}  # text of tokenizer.json -> ids

    def use(self, folder: Path | None, episode: Episode) -> int:
        """Register the episode's tokens; return its vocabulary's index in ``words()``, or -1."""
        if folder is None:
            return -1
        text = _text(folder / FILE)
        used = self._used.setdefault(text, set())
        used.update(episode.prompt_ids)
        for turn in episode.turns:
            used.update(turn.prompt_ids, turn.action_ids, turn.context_ids)
        return list(self._used).index(text)

    def words(self) -> list[dict[int, str]]:
        return [words(Tokenizer.from_str(text), used) for text, used in self._used.items()]


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
