"""Draws what the docs show of the code: ``architecture.svg`` from the contract of rooms in
pyproject.toml, and ``verl.md`` from ``verl_plugin`` and the reproductions of verl's bugs. Run it
after changing either:

    python docs/draw.py
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Callable, Iterable, Iterator
from html import escape
from pathlib import Path
from textwrap import dedent, wrap
from typing import Any

from turngrid.verl_plugin.changes import IN_PROCESS, ON_CPUS, REPLACED, WRAPPED, Table
from turngrid.verl_plugin.hooks import ours
from turngrid.verl_plugin.overrides import Override, overrides, reason, until

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
TIP = (
    '<marker id="tip" markerWidth="8" markerHeight="8" refX="6" refY="4" orient="auto">'
    '<path d="M0,0 L8,4 L0,8 z" fill="#6e7781"/></marker>'
)


# ---- the picture of rooms


def contracts() -> list[dict[str, Any]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return project["tool"]["importlinter"]["contracts"]


def layers() -> list[list[str]]:
    """Rooms that stand beside each other, upper ones first."""
    (rooms,) = (contract for contract in contracts() if contract["type"] == "layers")
    return [[named(room) for room in layer.split("|")] for layer in rooms["layers"]]


def light_rooms() -> set[str]:
    """Those that may not import torch."""
    forbidden = (contract for contract in contracts() if "torch" in contract.get("forbidden_modules", ()))
    return {named(room) for contract in forbidden for room in contract["source_modules"]}


def named(package: str) -> str:
    """Return the folder of ``turngrid.FOLDER``."""
    return package.strip().removeprefix("turngrid.")


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
    note = (
        "imports neither torch nor verl nor ray nor transformers. An arrow: "
        "may import what lies below, never the other way."
    )
    parts.append(f'<text class="what" x="{LEFT + 22}" y="{bottom + 12}">{note}</text>')
    height = bottom + 30
    size = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    return "\n".join([head, f"<style>{STYLE}</style>", f"<defs>{TIP}</defs>", WHITE, *parts, "</svg>", ""])


# ---- the page of changes in verl

PAGE = """# What is changed in verl

verl is a dependency, never a copy.
`python docs/draw.py` writes this page from [`changes.py`](../verl_plugin/changes.py), \
our classes and their docstrings.
If a new version of verl breaks an entry, `tests/verl_plugin/test_verl_changes.py` names it.
verl's extension points (registries, abstract methods, class names in its config) \
are not changes and are not listed.
One change is to vLLM: its CPU build keeps a layer's weights (`verl_plugin/servers/vllm_cpu.py`).

"""
BUGS = """## Bugs of verl 0.9.1

Each script shows one bug and imports nothing of turngrid, so it can be sent to verl as it is.
`tests/verl_plugin/test_verl_bugs.py` runs the scripts.
If a test fails, verl has fixed the bug, and our replacement can be removed.

"""


def section(title: str, *tables: Table) -> str:
    """A list for each module of verl: what is replaced, why, and until when."""
    entries = [(module, name, by) for table in tables for module, names in table.items() for name, by in names.items()]
    return f"## {title}\n\n" + "".join(
        part(f"`{module}`", [(f"`{name}`", why(by)) for _, name, by in own])
        for module, own in grouped(entries, lambda entry: entry[0])
    )


def why(by: str) -> str:
    """The reason of an entry, and when it goes."""
    return ". ".join(filter(None, (reason(ours(by)), until(ours(by)).replace("Until", "*Until*"))))


def overridden(found: Iterable[Override]) -> str:
    """A list for each class of ours."""
    return "## Overridden in a class of ours\n\n" + "".join(
        part(f"`{cls.removeprefix('turngrid.verl_plugin.')}`", [(method(one), one.why) for one in methods])
        for cls, methods in grouped(found, lambda one: one.ours)
    )


def method(override: Override) -> str:
    return f"`{override.theirs.rpartition('.')[2]}.{override.method}`"


def bugs() -> str:
    """The reproductions, with their docstrings as text."""
    source = (ROOT / "tests" / "verl_plugin" / "test_verl_bugs.py").read_text(encoding="utf-8")
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return BUGS + "".join(bug(one, source) for one in functions if one.name.startswith("bug_"))


def bug(function: ast.FunctionDef, source: str) -> str:
    """A reproduction: its docstring as text, then its lines."""
    code = dedent("\n".join(source.splitlines()[function.body[1].lineno - 1 : function.end_lineno]))
    text = " ".join((ast.get_docstring(function) or "").split())
    return f"{text}\n\n```python\n{code}\n```\n\n"


def grouped(changes: Iterable[Any], key: Callable[[Any], Any]) -> Iterable[tuple[Any, list[Any]]]:
    """By ``key``, in the order in which each is first seen."""
    groups: dict[Any, list[Any]] = {}
    for change in changes:
        groups.setdefault(key(change), []).append(change)
    return groups.items()


def part(title: str, entries: Iterable[tuple[str, str]]) -> str:
    """Names that are changed for one reason share a line."""
    names: dict[str, list[str]] = {}
    for entry, why in entries:
        names.setdefault(why, []).append(entry)
    return "\n".join([f"{title}:", "", *(f"- {', '.join(shared)}: {why}" for why, shared in names.items()), "", ""])


def page() -> str:
    return (
        PAGE
        + section("Replaced in every process, right after verl imports the module", WRAPPED, REPLACED)
        + section("Replaced by our own code, in the process that needs it", IN_PROCESS)
        + section("Replaced on CPUs, until verl runs on them", ON_CPUS)
        + overridden(overrides())
        + bugs()
    ).rstrip() + "\n"


def drawn() -> dict[Path, str]:
    return {DOCS / "architecture.svg": picture(), DOCS / "verl.md": page()}


if __name__ == "__main__":
    for file, text in drawn().items():
        file.write_text(text, encoding="utf-8")
