"""The report's table: success or score with its interval, and the published figure.

Figures of the study (arXiv 2510.01132v2) are in ``arxiv_2510_01132.yaml``. A sweep file names a
table.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from turngrid.envs.utils.names import nearest
from turngrid.experiments.report.runs import ReportedRun
from turngrid.experiments.report.samples import BASE, Sample, Unfilled, samples
from turngrid.experiments.sweep.definition import SUCCESS, Layout, Selector
from turngrid.records.process.exit_codes import Refusal
from turngrid.records.statistics import Interval, mean_interval, wilson

FILE = Path(__file__).with_name("arxiv_2510_01132.yaml")


@dataclass(frozen=True)
class Estimate:
    """A success rate, or a mean score, over seeds and games.

    Attributes:
        interval: mean over seeds, in [0, 1]. For the success of one model the bounds are Wilson's.
            Otherwise they come from a bootstrap over games that keeps all seeds of a game, so they
            describe other games with the same seeds.
    """

    interval: Interval
    by_seed: Mapping[int, float]  # seed -> success or score; empty for a base model
    expected: int  # number of seeds in the sweep; 0 for a base model
    games: int  # total games of the evaluation sets
    samples_per_game: int
    notes: tuple[str, ...] = ()  # footnotes for the figure

    @property
    def seeds(self) -> str:
        """Return ``3 seeds``, ``2 of 3 seeds`` or, for a base model, ``1 measurement``."""
        if not self.by_seed:
            return "no seed in all settings" if self.expected else "1 measurement"
        count, word = len(self.by_seed), "seed" if self.expected == 1 else "seeds"
        return f"{count} {word}" if count == self.expected else f"{count} of {self.expected} {word}"


@dataclass(frozen=True)
class TableCell:
    """A cell; ``why`` is the reason if there is no estimate."""

    row: str
    column: str
    measure: str
    estimate: Estimate | None
    why: str
    published: float | None


def table_cells(runs: Sequence[ReportedRun], layout: Layout, table: str | None) -> list[list[TableCell]]:
    """Return the cells, row by row, in the layout's order."""
    return [[_cell(runs, row, column, table) for column in layout.columns.items()] for row in layout.rows.items()]


def _cell(
    runs: Sequence[ReportedRun], row: tuple[str, Selector], column: tuple[str, Selector], table: str | None
) -> TableCell:
    estimated, why, selector = None, "", {**row[1], **column[1]}
    try:
        estimated = estimate(runs, selector)
    except Unfilled as error:
        why = str(error)
    names = (own.get("published", name) for name, own in (row, column))
    beside = table_of(table).figure(*names) if table else None
    return TableCell(row[0], column[0], selector.get("measure", SUCCESS), estimated, why, beside)


def estimate(runs: Sequence[ReportedRun], selector: Selector) -> Estimate:
    """Estimate success or score, averaged over the axes that ``selector`` does not name.

    Raises:
        Unfilled: no setting has data.
    """
    rows, problems = samples(runs, [selector])
    every = list(chain(*rows))
    seeded = [item for item in every if item.seeds]
    # settings that share a base model count it once
    base = {(item.evaluation_set, item.model): item for item in every if not item.seeds}
    counted = [*seeded, *base.values()]
    notes = [f"mean of {len(counted)} settings"] if len(counted) > 1 else []
    notes += [f"{len(problems)} settings left out: {'; '.join(problems)}"] if seeded and problems else []
    lowered = sum(item.lowered for item in seeded)
    notes += [f"rolled back to a lower learning rate: {lowered}"] if lowered else []
    seeds = sorted(set.intersection(*(set(item.seeds) for item in seeded))) if seeded else []
    return Estimate(
        interval=interval_of(counted),
        by_seed={seed: float(np.mean([item.of_seeds([seed]).mean() for item in counted])) for seed in seeds},
        expected=max(item.expected for item in counted),
        games=sum({item.evaluation_set: item.games for item in counted}.values()),
        samples_per_game=counted[0].samples_per_game,
        notes=tuple(notes),
    )


def interval_of(counted: Sequence[Sample]) -> Interval:
    """Return the mean of the samples' means, with its interval.

    Samples of one evaluation set are paired by game; sets are resampled independently.
    """
    first, *others = counted
    if not others and len(first.shares) == 1 and set(first.shares[0]) <= {0.0, 1.0}:
        return wilson(round(float(first.shares.sum())), first.games)
    return mean_interval(*by_set([(1 / len(counted), item) for item in counted]))


def by_set(parts: Sequence[tuple[float, Sample]], seeds: Sequence[int] | None = None) -> list[np.ndarray]:
    """Return a vector over games for each evaluation set; their means add up to the total."""
    vectors: dict[str, np.ndarray] = {}
    for weight, item in parts:
        rows = item.shares if seeds is None else item.of_seeds(seeds)
        vectors[item.evaluation_set] = vectors.get(item.evaluation_set, 0) + weight * rows.mean(axis=0)
    return list(vectors.values())


@dataclass(frozen=True)
class Table:
    """A table of the study."""

    name: str
    rows: Mapping[str, Mapping[str, float | None]]  # row -> column -> success rate; None if it was not reported
    protocol: Mapping[str, Any] = field(default_factory=dict)  # how it was measured
    note: str = ""  # a caveat for comparisons

    @property
    def title(self) -> str:
        """Return ``table 10`` for ``table10_algorithms``, ``released recipes``."""
        number = re.match(r"table(\d+)_", self.name)
        return f"table {number[1]}" if number else self.name.replace("_", " ")

    def figure(self, row: str, column: str) -> float | None:
        """Return a success rate; None if the paper has no such row or column."""
        if BASE in (row, column) and BASE in self.protocol:  # one figure for the untrained model
            return float(self.protocol[BASE])
        return self.rows.get(row, {}).get(column)


def tables() -> dict[str, Table]:
    """Return all tables by name, in the paper's order."""
    nodes: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    by_name = {}
    for name, node in nodes.items():
        if name != "source":
            rows = {row: dict(zip(node["columns"], cells, strict=True)) for row, cells in node["rows"].items()}
            by_name[name] = Table(name, rows, node.get("protocol", {}), node.get("note", ""))
    return by_name


@cache
def table_of(name: str) -> Table:
    """Return a table; raise Refusal if there is none of that name."""
    if name not in (known := tables()):
        raise Refusal(f"published={name}: no such table; use published={nearest(name, known)}")
    return known[name]
