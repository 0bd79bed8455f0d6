"""Published figures of the study (arXiv 2510.01132v2), from ``arxiv_2510_01132.yaml``.

A sweep file names a table. A dot selects a table inside another, as in
``table4_exploration_budget.swegym``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from turngrid.envs.utils.names import nearest
from turngrid.records.process.exit_codes import Refusal

FILE = Path(__file__).with_name("arxiv_2510_01132.yaml")
BASE = "base"  # row or column of a table whose protocol has one figure for the untrained model


@dataclass(frozen=True)
class Table:
    """A table of the study.

    Attributes:
        rows: row -> column -> success rate in [0, 1]; None if it was not reported. The rows of
            table 13 are named by their settings.
        protocol: how it was measured, as far as it is published.
        note: a caveat for comparisons.
    """

    name: str
    rows: Mapping[str, Mapping[str, float | None]]
    protocol: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def title(self) -> str:
        """Return ``table 10`` for ``table10_algorithms``, ``released recipes``."""
        number = re.match(r"table(\d+)_", self.name)
        return f"table {number[1]}" if number else self.name.replace("_", " ")

    def figure(self, row: str, column: str) -> float | None:
        """Return a success rate; None if the paper has no such row or column."""
        if BASE in (row, column) and BASE in self.protocol:
            return float(self.protocol[BASE])
        return self.rows.get(row, {}).get(column)


@cache
def tables() -> dict[str, Table]:
    """Return all tables by name, in the paper's order."""
    return {table.name: table for table in _read("", yaml.safe_load(FILE.read_text(encoding="utf-8")))}


def table_of(name: str) -> Table:
    """Return a table.

    Raises:
        Refusal: there is none of that name.
    """
    if name not in tables():
        raise Refusal(f"published={name}: no such table; use published={nearest(name, tables())}")
    return tables()[name]


def _read(name: str, node: Any) -> Iterator[Table]:
    if not isinstance(node, dict):
        return
    if "rows" in node:
        rows = {row: dict(zip(node["columns"], cells, strict=True)) for row, cells in node["rows"].items()}
        yield Table(name, rows, node.get("protocol", {}), node.get("note", ""))
    for key, inner in node.items():
        yield from _read(f"{name}.{key}" if name else key, inner)
