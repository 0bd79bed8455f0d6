"""Published figures of the study (arXiv 2510.01132v2), from ``arxiv_2510_01132.yaml``.

A sweep file names a table. A dot selects a table inside another, as in
``table4_exploration_budget.swegym``. Every function raises ``PublishedError`` for an unknown table,
row or column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from turngrid.envs.utils.names import nearest
from turngrid.records.process.exit_codes import Refusal

FILE = Path(__file__).with_name("arxiv_2510_01132.yaml")
NONE = "none"  # in a layout: the paper has no such row or column
BASE = "base"  # row or column of a table whose protocol has one figure for the untrained model

Rows = Mapping[str, Mapping[str, float | None]]


class PublishedError(Refusal):
    """There is no such table, row or column; the message names the nearest one."""


def figure(table: str, row: str | None, column: str | None) -> float | None:
    """Return a success rate in [0, 1]; None if the paper has none, or if row or column is
    ``none``.
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
    """Return row -> column -> figure. The rows of table 13 are named by their settings."""
    names = columns(table)
    return {name: dict(zip(names, row, strict=True)) for name, row in _table(table)["rows"].items()}


def columns(table: str) -> list[str]:
    """Return the columns that hold figures, in the paper's order."""
    return [str(name) for name in _table(table)["columns"]]


def protocol(table: str) -> Mapping[str, Any]:
    """Return the paper's measurement protocol, as far as it is published."""
    return _table(table).get("protocol", {})


def note(table: str) -> str:
    """Return a caveat for comparisons with a table; may be empty."""
    return _table(table).get("note", "")


def table_name(table: str) -> str:
    """Return ``table 10`` for ``table10_algorithms``, ``released recipes``."""
    _table(table)
    number = re.match(r"table(\d+)_", table)
    return f"table {number[1]}" if number else table.replace("_", " ")


def tables() -> tuple[str, ...]:
    """Return the names of all tables, in the paper's order."""
    return tuple(_tables())


def _table(name: str) -> dict[str, Any]:
    return _tables()[_known("published table", name, _tables())]


@cache
def _tables() -> dict[str, dict[str, Any]]:
    found = {}
    for name, node in _data().items():
        parts = node.items() if isinstance(node, dict) else ()
        own = {"": node, **{f".{part}": inner for part, inner in parts}}
        found |= {f"{name}{part}": table for part, table in own.items() if isinstance(table, dict) and "rows" in table}
    return found


@cache
def _data() -> dict[str, Any]:
    return yaml.safe_load(FILE.read_text(encoding="utf-8"))


def _known(what: str, name: str | None, choices: Iterable[str]) -> str:
    choices = list(choices)
    if name is None or name not in choices:
        raise PublishedError(f"no {what} is called {name!r}; use {nearest(name or NONE, choices)}")
    return name
