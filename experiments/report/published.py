"""The published figures of the study (arXiv 2510.01132v2), which a report shows beside ours: ``arxiv_2510_01132.yaml``.

A table is named as a sweep file names it; one table inside another has a dot: ``table4_exploration_budget.swegym``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from envs.utils.names import nearest
from records.process.exit_codes import Refusal

FILE = Path(__file__).with_name("arxiv_2510_01132.yaml")
NONE = "none"  # how a layout says that the paper has no such row or column
BASE = "base"  # row or column of a table whose one figure for the untrained model stands in its protocol

Rows = Mapping[str, Mapping[str, float | None]]


class PublishedError(Refusal):
    """No such table, row or column; the message is one line and names the nearest."""


def figure(table: str, row: str | None, column: str | None) -> float | None:
    """A success rate in [0, 1]; None where the paper reports none, and where ``row`` or ``column`` is None or ``none``.

    Raises:
        PublishedError: no such table, row or column.
    """
    cells = rows(table)
    if row in (None, NONE) or column in (None, NONE):
        return None
    base = protocol(table).get(BASE)
    if base is not None and BASE in (row, column):
        _known(f"row of {table}", row, [*cells, BASE])
        _known(f"column of {table}", column, [*columns(table), BASE])
        return float(base)
    return cells[_known(f"row of {table}", row, cells)][_known(f"column of {table}", column, columns(table))]


@cache
def rows(table: str) -> Rows:
    """Row -> column -> figure, in the paper's order; settings that name a row (table 13) are in its name, as in
    ``kl_coef=0.01,temperature=0.7``.

    Raises:
        PublishedError: no such table.
    """
    node, names = _table(table), columns(table)
    listed = node["rows"]
    if isinstance(listed, list):
        keys = node["columns"][:-1]  # rows without a name are called by their settings, as YAML and Hydra write numbers
        named = (
            (",".join(f"{key}={value!r}" for key, value in zip(keys, row[:-1], strict=True)), row) for row in listed
        )
        return MappingProxyType({name: {names[-1]: row[-1]} for name, row in named})
    return MappingProxyType({name: dict(zip(names, row, strict=True)) for name, row in listed.items()})


def columns(table: str) -> list[str]:
    """The columns that hold figures, in the paper's order. Raises: PublishedError: no such table."""
    node = _table(table)
    names = [str(name) for name in node["columns"]]
    return names[-1:] if isinstance(node["rows"], list) else names


def protocol(table: str) -> Mapping[str, Any]:
    """How the paper measured it, as far as it says. Raises: PublishedError: no such table."""
    return _table(table).get("protocol", {})


def note(table: str) -> str:
    """What to know before comparing with it; "" for nothing. Raises: PublishedError: no such table."""
    return _table(table).get("note", "")


def table_name(table: str) -> str:
    """In words: ``table 10`` for ``table10_algorithms``, ``released recipes``. Raises: PublishedError: no such table."""
    _table(table)
    number = re.match(r"table(\d+)_", table)
    return f"table {number[1]}" if number else table.replace("_", " ")


@cache
def tables() -> tuple[str, ...]:
    """The names of all tables, in the paper's order."""
    found: list[str] = []
    for name, node in _data().items():
        if isinstance(node, dict):
            found += [
                name,
                *(f"{name}.{part}" for part, inner in node.items() if isinstance(inner, dict) and "rows" in inner),
            ]
    return tuple(found)


def _table(name: str) -> dict[str, Any]:
    node: Any = _data()
    for part in _known("published table", name, tables()).split("."):
        node = node[part]
    return node


@cache
def _data() -> dict[str, Any]:
    return yaml.safe_load(FILE.read_text(encoding="utf-8"))


def _known(what: str, name: str, choices: Iterable[str]) -> str:
    choices = list(choices)
    if name not in choices:
        raise PublishedError(f"no {what} is called {name!r}; did you mean {nearest(name, choices)}?")
    return name
