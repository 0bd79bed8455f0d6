"""Learning curves of settings: the mean over seeds and how far the seeds lie apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.report.curve import SHOWN, shown
from experiments.report.methods import task_axes
from experiments.report.runs import Run, apart, grouped

MOST_LINES = 8  # in one chart
MOST_SUBPLOTS = 9


@dataclass(frozen=True)
class Series:
    """One setting. All arrays have one entry a step that each of its seeds has: ``mean``, ``low`` and ``high`` (the lowest
    and highest seed) are shares in [0, 1] or in the metric's unit, ``episodes`` counts those played by one run up to the step."""

    name: str
    seeds: int
    steps: np.ndarray
    episodes: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Subplot:
    """One chart's lines; ``title`` is what they have in common: a part of the runs, or a metric with its ``unit``; "" where it has none."""

    title: str
    unit: str
    series: Sequence[Series]


def success_subplots(runs: Sequence[Run]) -> list[Subplot]:
    """Charts of few enough lines, split by task where the sweep has several, else by the axis that splits them best."""
    trained = [run for run in runs if run.curve.steps]
    axes = _split(trained)
    groups = apart(trained, lambda run: " ".join(value for axis, value in run.coordinates.items() if axis in axes))
    return [
        Subplot(name, "", [one_series(*lines) for lines in grouped(group, without=axes, nameless="success").items()])
        for name, group in groups.items()
    ]


def same_lines(subplots: Sequence[Subplot]) -> list[str]:
    """``grpo, gigpo``: names of lines that are equal in every step, so that the last one covers the others."""
    found: dict[tuple[str, bytes, bytes], list[str]] = {}
    for subplot in subplots:
        for line in subplot.series:
            found.setdefault((subplot.title, line.steps.tobytes(), line.mean.tobytes()), []).append(line.name)
    return [", ".join(names) for names in found.values() if len(names) > 1]


def _split(runs: Sequence[Run]) -> list[str]:
    tasks = task_axes([run for run in runs if run.result])
    if tasks and _count(runs, tasks) <= MOST_SUBPLOTS:
        return tasks
    if len({tuple(run.coordinates.items()) for run in runs}) <= MOST_LINES:
        return []
    names = dict.fromkeys(axis for run in runs for axis in run.coordinates)
    few = [axis for axis in names if _count(runs, [axis]) <= MOST_SUBPLOTS]
    return [max(few, key=lambda axis: _count(runs, [axis]))] if few else []


def _count(runs: Sequence[Run], axes: Sequence[str]) -> int:
    return len({tuple(run.coordinates.get(axis) for axis in axes) for run in runs})


def one_series(name: str, runs: Sequence[Run], metric: str = "") -> Series:
    """Of success, or of another ``metric`` that all of ``runs`` have. Finished runs alone where there are any: a run that stopped
    early would cut the others short."""
    chosen = [run for run in runs if run.result] or list(runs)
    values: list[Mapping[int, float]] = [
        run.curve.others[metric] if metric else dict(zip(run.curve.steps, run.curve.shares, strict=True))
        for run in chosen
    ]
    steps = sorted(set.intersection(*map(set, values)))
    rows = np.array([[value[step] for step in steps] for value in values])
    first = chosen[0].curve
    played = np.array([first.episodes[first.steps.index(step)] for step in steps])
    return Series(name, len(chosen), np.array(steps), played, rows.mean(axis=0), rows.min(axis=0), rows.max(axis=0))


def metric_subplots(runs: Sequence[Run]) -> list[Subplot]:
    """One for each metric that any run has, in the order of ``SHOWN``, whose lines are the settings that have it; none where
    these are too many to be told apart, or all values of it are 0."""
    found = []
    settings = grouped([run for run in runs if run.curve.steps], nameless="run")
    names = {name for run in runs for name in run.curve.others} if len(settings) <= MOST_LINES else set()
    for name in sorted(names, key=_order):
        have = {setting: [run for run in group if name in run.curve.others] for setting, group in settings.items()}
        lines = [one_series(setting, group, name) for setting, group in have.items() if group]
        if any(line.mean.any() for line in lines):
            found.append(Subplot(*(shown(name) or (name, "")), lines))
    return found


def _order(name: str) -> tuple[int, str]:
    places = [
        place for place, known in enumerate(SHOWN) if name == known or known.endswith("/") and name.startswith(known)
    ]
    return places[0], name
