"""Differences between all values of what varied, for runs whose sweep declares no takeaways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from experiments.report.contrast import Contrast, contrast
from experiments.report.runs import Run, told
from experiments.report.selection import Choice, Unfilled, by_context


@dataclass(frozen=True)
class Pair:
    """``first`` less ``second``; ``evaluation_set`` is "" where every run has one. ``why`` there is no ``contrast``."""

    first: str
    second: str
    evaluation_set: str
    contrast: Contrast | None
    why: str = ""


def pairs(runs: Sequence[Run]) -> list[Pair]:
    """For each axis and evaluation set, later values less earlier ones, where both ran with all other axes equal."""
    several = any(len(run.evaluation_sets) > 1 for run in runs)
    sets = list(dict.fromkeys("/".join(one) for run in runs for one in run.evaluation_sets)) if several else [""]
    found = []
    for axis in dict.fromkeys(axis for run in runs for axis in run.coordinates):
        values = dict.fromkeys(run.coordinates[axis] for run in runs if axis in run.coordinates)
        for second, first in combinations(values, 2):
            if both := _with_both(runs, axis, {first, second}):
                found += [_pair(both, axis, first, second, evaluation_set) for evaluation_set in sets]
    return found


def _with_both(runs: Sequence[Run], axis: str, values: set[str]) -> list[Run]:
    contexts = by_context(runs, [axis]).values()
    whole = [group for group in contexts if values <= {run.coordinates.get(axis) for run in group}]
    return [run for group in whole for run in group]


def _pair(runs: Sequence[Run], axis: str, first: str, second: str, evaluation_set: str) -> Pair:
    names = told(axis, first), told(axis, second)
    parts = [
        (sign, Choice({axis: value}, evaluation_set=evaluation_set or None))
        for sign, value in ((1, first), (-1, second))
    ]
    try:
        return Pair(*names, evaluation_set, contrast(runs, parts))
    except Unfilled as error:
        return Pair(*names, evaluation_set, None, str(error))
