"""Draws what the docs show of the code: ``architecture.svg`` from the contract of rooms in pyproject.toml, and the table of
``verl.md`` from ``verl_plugin.changes``. Run it after changing either:

    python docs/draw.py
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Callable, Iterable, Iterator
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Any

from verl_plugin.changes import AFTER_IMPORT, OVERRIDDEN, REPLACED, Change

DOCS = Path(__file__).parent
ROOT = DOCS.parent
WIDTH, HEIGHT, GAP, LEFT = 860, 48, 22, 20
INDENT = 140  # of what a room is for
BLINK = "#e8f1e4"
STYLE = """
  text { font-family: sans-serif; fill: #1f2328 }
  .room { font-size: 15px; font-weight: bold }
  .what { font-size: 12px }
  .arrow { stroke: #6e7781; fill: none; marker-end: url(#tip) }
"""
WHITE = '<rect width="100%" height="100%" fill="white"/>'
TIP = '<marker id="tip" markerWidth="8" markerHeight="8" refX="6" refY="4" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#6e7781"/></marker>'


# ---- the picture of rooms


def contracts() -> list[dict[str, Any]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return project["tool"]["importlinter"]["contracts"]


def layers() -> list[list[str]]:
    """Rooms that stand beside each other, upper ones first."""
    (rooms,) = (contract for contract in contracts() if contract["type"] == "layers")
    return [[room.strip() for room in layer.split("|")] for layer in rooms["layers"]]


def light_rooms() -> set[str]:
    """Those that may not import torch."""
    forbidden = (contract for contract in contracts() if "torch" in contract.get("forbidden_modules", ()))
    return {room for contract in forbidden for room in contract["source_modules"]}


def purpose(room: str) -> str:
    """The first sentence of the room's docstring."""
    text = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text(encoding="utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ").replace("``", "").split(". ")[0].rstrip(".")


def box(room: str, x: float, y: float, width: float) -> Iterator[str]:
    fill = BLINK if room in light_rooms() else "#eef2f8"
    yield f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{HEIGHT}" rx="6" fill="{fill}" stroke="#afb8c1"/>'
    yield f'<text class="room" x="{x + 14:g}" y="{y + HEIGHT / 2 + 5:g}">{room}/</text>'
    lines = wrap(purpose(room), int((width - INDENT) / 6.3))
    for number, line in enumerate(lines):
        top = y + HEIGHT / 2 + 4 + 15 * number - 7.5 * (len(lines) - 1)
        yield f'<text class="what" x="{x + INDENT:g}" y="{top:g}">{escape(line, quote=False)}</text>'


def picture() -> str:
    shown, full = layers(), WIDTH - 2 * LEFT
    parts = []
    for number, rooms in enumerate(shown):
        y, width = 16 + number * (HEIGHT + GAP), (full - GAP * (len(rooms) - 1)) / len(rooms)
        for place, room in enumerate(rooms):
            parts += box(room, LEFT + place * (width + GAP), y, width)
        if number:
            parts.append(f'<path class="arrow" d="M{WIDTH / 2:g},{y - GAP} V{y - 3}"/>')
    bottom = 16 + len(shown) * (HEIGHT + GAP)
    parts.append(f'<rect x="{LEFT}" y="{bottom}" width="14" height="14" fill="{BLINK}" stroke="#afb8c1"/>')
    note = "imports neither torch nor verl nor ray nor transformers. An arrow: may import what lies below, never the other way."
    parts.append(f'<text class="what" x="{LEFT + 22}" y="{bottom + 12}">{note}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{bottom + 30}" viewBox="0 0 {WIDTH} {bottom + 30}">'
    return "\n".join([head, f"<style>{STYLE}</style>", f"<defs>{TIP}</defs>", WHITE, *parts, "</svg>", ""])


# ---- the table of changes in verl

PAGE = """# What is changed in verl

verl is a dependency, never a copy. This page lists what is changed in it when it runs, beyond what it offers for others to fill in.
`python docs/draw.py` writes it from [`verl_plugin/changes.py`](../verl_plugin/changes.py), which has what takes its place and every reason;
`tests/verl_plugin/test_verl_changes.py` names the entries that a new version of verl breaks. Changed too: vLLM's CPU build keeps a
layer's weights (`verl_plugin/servers/vllm_cpu.py`).

"""


def section(title: str, changes: Iterable[Change]) -> str:
    """A list for each module of verl: what is changed, and why."""
    return f"## {title}\n\n" + "".join(
        part(f"`{module}`", [(f"`{name(change)}`", change.why) for change in found])
        for module, found in grouped(changes, lambda change: change.module)
    )


def overridden(changes: Iterable[Change]) -> str:
    """A line for each class of ours."""
    lines = (
        f"- `{place(found[0])}` over `{found[0].module}.{name(found[0]).split('.')[0]}`: "
        + ", ".join(f"`{name(change).split('.')[1]}`" for change in found)
        for _, found in grouped(changes, lambda change: (change.by, change.module))
    )
    return "\n".join(["## Overridden in a class of ours", "", *lines, "", ""])


def grouped(changes: Iterable[Change], key: Callable[[Change], Any]) -> Iterable[tuple[Any, list[Change]]]:
    """By ``key``, in the order in which each is first seen."""
    found: dict[Any, list[Change]] = {}
    for change in changes:
        found.setdefault(key(change), []).append(change)
    return found.items()


def part(title: str, entries: Iterable[tuple[str, str]]) -> str:
    """Names that are changed for one reason share a line."""
    names: dict[str, list[str]] = {}
    for entry, why in entries:
        names.setdefault(why, []).append(entry)
    return "\n".join([f"{title}:", "", *(f"- {', '.join(shared)}: {why}" for why, shared in names.items()), "", ""])


def name(change: Change) -> str:
    return change.name.split("(")[0]


def place(change: Change) -> str:
    module, name = change.by.split(":")
    return f"{module.removeprefix('verl_plugin.')}.{name}"


def page() -> str:
    return (
        PAGE
        + section("In every process, right after verl imports the module", AFTER_IMPORT)
        + section("By assignment, in the process that needs it", REPLACED)
        + overridden(OVERRIDDEN)
    ).rstrip() + "\n"


def drawn() -> dict[Path, str]:
    return {DOCS / "architecture.svg": picture(), DOCS / "verl.md": page()}


if __name__ == "__main__":
    for file, text in drawn().items():
        file.write_text(text, encoding="utf-8")
