"""Methods and tasks: the scores of whole runs, arranged as statistics over runs want them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.evaluation.matrix import EvaluationResult
from experiments.report.reliability import estimated, improvement, iqm, profile, rectangle
from experiments.report.runs import LAST, Run, apart, setting_names
from records.statistics import Interval

THRESHOLDS = np.linspace(0, 1, 101)
FEWEST = 3  # seeds: a bootstrap of two runs has three outcomes
MOST_PAIRED = 6  # methods; beyond, each is compared with the best one only
Task = tuple[str, str]


@dataclass(frozen=True)
class Method:
    """``scores``: success of each run's last model, shape (seeds, tasks), in [0, 1]."""

    name: str
    scores: np.ndarray
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Improvement:
    """How likely a run of ``first`` beats one of ``second`` on the same task, in [0, 1]."""

    first: str
    second: str
    interval: Interval


@dataclass(frozen=True)
class Reliability:
    """``profiles``: a method's interval at each of ``THRESHOLDS``."""

    methods: Sequence[Method]
    tasks: Sequence[str]
    iqm: Mapping[str, Interval]
    profiles: Mapping[str, Sequence[Interval]]
    improvements: Sequence[Improvement]


def reliability(runs: Sequence[Run]) -> Reliability | None:
    """None where no method has ``FEWEST`` seeds."""
    found, tasks = methods(runs)
    found = [method for method in found if len(method.seeds) >= FEWEST]
    if not found:
        return None
    ranked = sorted(found, key=lambda method: -float(iqm(method.scores)))  # of a pair the better one comes first
    pairs = list(itertools.combinations(ranked, 2))
    return Reliability(
        methods=found,
        tasks=tasks,
        iqm={method.name: estimated(iqm, method.scores)[0] for method in found},
        profiles={method.name: estimated(lambda s: profile(s, THRESHOLDS), method.scores) for method in found},
        improvements=[
            Improvement(first.name, second.name, estimated(improvement, first.scores, second.scores)[0])
            for first, second in pairs
            if len(found) <= MOST_PAIRED or first is ranked[0]
        ],
    )


def methods(runs: Sequence[Run]) -> tuple[list[Method], list[str]]:
    """What is left of the coordinates once the axes that only change the task are taken away, with the tasks that all
    methods have. A seed counts where it has all of them."""
    finished = [run for run in runs if run.result]
    axes = task_axes(finished)
    scores: dict[str, dict[Task, dict[int, float]]] = {}
    for run, name in zip(finished, setting_names(finished, without=axes), strict=True):
        for evaluation in _last(run)[: 1 if axes else None]:
            evaluation_set = scores.setdefault(name or "all runs", {}).setdefault((evaluation.env, evaluation.task), {})
            evaluation_set[run.seed] = evaluation.interval.mean
    shared = [
        evaluation_set
        for evaluation_set in next(iter(scores.values()), {})
        if all(evaluation_set in by for by in scores.values())
    ]
    made = [(name, *rectangle([by[evaluation_set] for evaluation_set in shared])) for name, by in scores.items()]
    return [Method(name, array, tuple(seeds)) for name, array, seeds in made], [task for _, task in shared]


def _last(run: Run) -> list[EvaluationResult]:
    """The last model on every evaluation set, the run's first one first."""
    evaluations = [run.evaluation(LAST, f"{env}/{task}") for env, task in run.evaluation_sets]
    return [evaluation for evaluation in evaluations if evaluation]


def task_axes(runs: Sequence[Run]) -> list[str]:
    """Axes along which, with all others fixed, the games of the test change."""

    def changes_sets(axis: str) -> bool:
        groups = apart(runs, lambda run: tuple(item for item in run.coordinates.items() if item[0] != axis))
        return any(len({tuple(run.evaluation_sets) for run in group}) > 1 for group in groups.values())

    return [axis for axis in dict.fromkeys(axis for run in runs for axis in run.coordinates) if changes_sets(axis)]
