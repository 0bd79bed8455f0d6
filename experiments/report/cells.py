"""The report's table: success or score with its interval, and the published figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from turngrid.experiments.report import published
from turngrid.experiments.report.runs import Run
from turngrid.experiments.report.samples import Sample, Unfilled, axes_of, by_context, sample, taken
from turngrid.experiments.sweep.definition import SUCCESS, Layout, Selector
from turngrid.records.statistics import RESAMPLES, Interval, share_interval, wilson


@dataclass(frozen=True)
class Estimate:
    """A success rate, or a mean score, over seeds and games.

    Attributes:
        interval: mean over seeds, in [0, 1]. For the success of one model the bounds are Wilson's.
            Otherwise they come from a bootstrap over games that keeps all seeds of a game, so they
            describe other games with the same seeds.
        by_seed: seed -> success or score; empty for a base model.
        games: total games of the evaluation sets.
        notes: footnotes for the figure.
    """

    interval: Interval
    by_seed: Mapping[int, float]
    expected: int
    games: int
    samples_per_game: int
    notes: tuple[str, ...] = ()

    @property
    def seeds(self) -> str:
        """Return ``3 seeds``, ``2 of 3 seeds`` or, for a base model, ``1 measurement``."""
        if not self.by_seed:
            return "1 measurement"
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


def table_cells(runs: Sequence[Run], layout: Layout, table: str | None) -> list[list[TableCell]]:
    """Return the cells, row by row, in the layout's order."""
    return [
        [_cell(runs, (row, layout.rows[row]), (column, layout.columns[column]), table) for column in layout.columns]
        for row in layout.rows
    ]


def _cell(runs: Sequence[Run], row: tuple[str, Selector], column: tuple[str, Selector], table: str | None) -> TableCell:
    selector = {**row[1], **column[1]}
    estimated, why, beside = None, "", None
    try:
        estimated = estimate(runs, selector)
    except Unfilled as error:
        why = str(error)
    if table:
        names = (own.get("published", name) for name, own in (row, column))
        with suppress(published.PublishedError):  # the paper has no such row or column
            beside = published.figure(table, *names)
    return TableCell(row[0], column[0], selector.get("measure", SUCCESS), estimated, why, beside)


def estimate(runs: Sequence[Run], selector: Selector) -> Estimate:
    """Estimate success or score, averaged over all values of the axes that ``selector`` does not
    name.

    Raises:
        Unfilled: no setting has data.
    """
    samples, problems = [], []
    for group in by_context(taken(runs, selector), list(axes_of(selector))).values() or [[]]:
        try:
            samples.append(sample(group, selector))
        except Unfilled as error:
            problems.append(str(error))
    if not samples:
        raise Unfilled("; ".join(dict.fromkeys(problems)))
    seeded = [item for item in samples if item.seeds]
    base = {item.evaluation_set: item for item in samples if not item.seeds}  # settings that share one count it once
    return _combined([*seeded, *base.values()], problems if seeded else [])


def _combined(samples: Sequence[Sample], problems: Sequence[str]) -> Estimate:
    notes = [f"mean of {len(samples)} settings"] if len(samples) > 1 else []
    notes += [f"{len(problems)} settings left out: {'; '.join(dict.fromkeys(problems))}"] if problems else []
    seeds = sorted(set.intersection(*(set(item.seeds) for item in samples)))
    return Estimate(
        interval=interval_of(samples),
        by_seed={seed: float(np.mean([item.of_seeds([seed]).mean() for item in samples])) for seed in seeds},
        expected=max(item.expected for item in samples),
        games=sum({item.evaluation_set: item.games for item in samples}.values()),
        samples_per_game=samples[0].samples_per_game,
        notes=tuple(notes),
    )


def interval_of(samples: Sequence[Sample]) -> Interval:
    """Return the mean of the samples' means, with its interval.

    Samples of the same evaluation set are paired by game; evaluation sets are resampled
    independently.
    """
    if len(samples) > 1:
        return _stratified(per_game(samples))
    (vector,) = per_game(samples)
    if len(samples[0].means) == 1 and set(vector.tolist()) <= {0.0, 1.0}:
        return wilson(round(float(vector.sum())), samples[0].games)
    return share_interval(vector.tolist())


def per_game(samples: Sequence[Sample]) -> list[np.ndarray]:
    """Return a vector for each evaluation set; their means add up to the samples' mean."""
    vectors: dict[str, np.ndarray] = {}
    for item in samples:
        part = item.shares.mean(axis=0) / len(samples)
        vectors[item.evaluation_set] = vectors.get(item.evaluation_set, 0) + part
    return list(vectors.values())


def _stratified(vectors: Sequence[np.ndarray]) -> Interval:
    """Stratified percentile bootstrap (Davison and Hinkley, 1997, section 3.2)."""
    generator = np.random.default_rng(0)
    draws = [vector[generator.integers(0, vector.size, (RESAMPLES, vector.size))].mean(axis=1) for vector in vectors]
    low, high = np.percentile(np.sum(draws, axis=0), [2.5, 97.5])
    return Interval(float(sum(vector.mean() for vector in vectors)), float(low), float(high))
