"""Write the tables of docs/methods.md from the cards of methods and the files of ``algo=`` words.

python -m config.method_cards

The tables replace what is between the page's two marks.
"""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from turngrid.algorithms.chosen import method_class
from turngrid.algorithms.registry import ALGO, ALGORITHMS, ESTIMATORS, FORM, SLOTS, VERLS_LOSSES, base_of, words
from turngrid.config.base import CONF, ROOT
from turngrid.rewards.declared import GROUPS, SYNCHRONOUS, WHOLE_STEP, Card
from turngrid.rollouts.prompt_forms.registry import PROMPTS, prompt_class

PAGE = ROOT / "docs" / "methods.md"
BEGIN, END = "<!-- from `python -m config.method_cards` -->", "<!-- end of its tables -->"
TITLES = {
    FORM: "Rollout forms",
    "shaping": "Rewards of turns",
    "filter": "Filters",
    "credit": "Credit",
    "loss": "Losses",
    "terms": "Terms",
    "buffer": "Buffers",
}
NEEDS = {
    GROUPS: "groups",
    WHOLE_STEP: "the whole step",
    SYNCHRONOUS: "a synchronous trainer",
    "entropy": "entropy",
    "values": "a critic",
    "teacher": "`algo.teacher`",
}


def tables() -> str:
    """Return the tables as Markdown."""
    parts = [_section(title, slot) for slot, title in TITLES.items()]
    return "\n\n".join([*parts, _verls_losses(), _estimators(), _words()])


def with_tables(page: str) -> str:
    """Return the page with its tables renewed."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


def _section(title: str, slot: str) -> str:
    return _table(f"### {title}", slot, {name: method_class(slot, name, {}) for name in SLOTS[slot]})


def _verls_losses() -> str:
    rows = [f"| `loss={name}` | {_comment(_text('loss', name))} |" for name in VERLS_LOSSES]
    return "### Losses of verl\n\n| option | what it is |\n|---|---|\n" + "\n".join(rows)


def _text(group: str, name: str) -> str:
    return (CONF / group / f"{name}.yaml").read_text(encoding="utf-8")


def _estimators() -> str:
    return _table("### Estimators over turns", ALGO, {name: method_class(ALGO, name, {}) for name in ESTIMATORS})


def _table(title: str, slot: str, kinds: dict[str, Any]) -> str:
    head = f"{title}\n\n| option | what it does | from | published | needs | ours |\n|---|---|---|---|---|---|\n"
    return head + "\n".join(_row(slot, name, kind, kind.card) for name, kind in kinds.items())


def _row(slot: str, name: str, kind: Any, card: Card) -> str:
    origin = ", ".join(filter(None, (card.paper, card.source))) or "ours"
    cells = [f"`{slot}={name}`", card.does, origin, card.result, _needs(kind, card), card.ours]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _needs(kind: Any, card: Card) -> str:
    requires, needs = (getattr(kind, name, ()) for name in ("requires", "needs"))
    declared = {*needs, *(requires if isinstance(requires, frozenset) else ())}
    parts = [text for word, text in NEEDS.items() if word in declared]
    labels, heads = getattr(kind, "labels", ()), getattr(kind, "heads", 1)
    parts = [f"{part} of {heads} heads" if part == NEEDS["values"] and heads > 1 else part for part in parts]
    parts += [f"`prompt={form}`" for form in PROMPTS if labels and prompt_class(form).labels == labels]
    parts += ["`rollout=transformers`"] if getattr(kind, "entropies", False) is True else []
    return "; ".join([*parts, *([card.needs] if card.needs else [])])


def _words() -> str:
    head = "### Words of `algo=`\n\n| option | over | chooses | what it is |\n|---|---|---|---|\n"
    rows = [_word(word) for word in words() if word not in ALGORITHMS]
    return head + "\n".join(rows)


def _word(word: str) -> str:
    text = _text(ALGO, word)
    chosen: list[str] = []
    base = ""
    for entry in yaml.safe_load(text).get("defaults", ()):
        if isinstance(entry, str):
            base = entry
        else:
            chosen += [_choice(*item) for item in entry.items()]
    over = f"`{base or base_of(word)}`"
    return f"| `{ALGO}={word}` | {over if base else ''} | {' '.join(chosen)} | {_comment(text)} |"


def _choice(group: str, options: str | list[str]) -> str:
    names = options if isinstance(options, str) else f"[{','.join(options)}]"
    return f"`{group.removeprefix('override /')}={names}`"


def _comment(text: str) -> str:
    """Return the comment at the head of an option's file."""
    comment = takewhile(lambda line: line.startswith("#"), text.splitlines()[1:])
    return " ".join(line.removeprefix("# ") for line in comment)


def main(page: Path = PAGE) -> None:
    page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
