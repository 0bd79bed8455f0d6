"""Statistics over whole runs after Agarwal et al. (2021, arXiv 2108.13264).

These are the interquartile mean and the probability of improvement, each with a bootstrap that
resamples runs within each task. rliable 1.2.0 cannot be used: it needs arch < 8, and arch 7 does
not import beside pandas 3. Scores are success rates in [0, 1], seeds by tasks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import trim_mean

from turngrid.experiments.report.runs import LAST, Run, setting_names, task_axes
from turngrid.records.statistics import Interval, bootstrap

FEWEST = 3  # seeds: a bootstrap of two runs has three outcomes
MOST_PAIRED = 6  # methods; if there are more, compare each with the best one only
RESAMPLES = 2000


@dataclass(frozen=True)
class Reliability:
    """Statistics of each method.

    Attributes:
        improvements: (first, second) -> probability that the first's run beats the second's.
    """

    scores: Mapping[str, pd.DataFrame]  # method -> success of each run's last model, seeds by tasks
    iqm: Mapping[str, Interval]  # method -> interquartile mean
    improvements: Mapping[tuple[str, str], Interval]

    @property
    def tasks(self) -> list[str]:
        return list(next(iter(self.scores.values())).columns)


def reliability(runs: Sequence[Run]) -> Reliability | None:
    """Compare methods; None if none has ``FEWEST`` seeds or they share no task."""
    scores = {name: table for name, table in scores_of(runs).items() if table.size and len(table) >= FEWEST}
    if not scores:
        return None
    means = {name: iqm(table) for name, table in scores.items()}
    ranked = sorted(scores, key=lambda name: -means[name].mean)
    pairs = [pair for pair in combinations(ranked, 2) if len(scores) <= MOST_PAIRED or pair[0] == ranked[0]]
    return Reliability(scores, means, {pair: improvement(*(scores[name] for name in pair)) for pair in pairs})


def scores_of(runs: Sequence[Run]) -> dict[str, pd.DataFrame]:
    """Return method -> scores on the common tasks, for seeds that have all of them.

    A method is a setting without the axes that only change the task.
    """
    finished = [run for run in runs if run.result]
    axes = task_axes(finished)
    rows = [
        (name or "all runs", run.seed, f"{one.env}/{one.task}", one.interval.mean)
        for run, name in zip(finished, setting_names(finished, without=axes), strict=True)
        for one in run.stage_evaluations(LAST)[: 1 if axes else None]
    ]
    frame = pd.DataFrame(rows, columns=["method", "seed", "task", "score"])
    tables = {
        str(name): part.pivot_table(index="seed", columns="task", values="score", aggfunc="last")
        for name, part in frame.groupby("method", sort=False)
    }
    shared = [task for task in dict.fromkeys(frame["task"]) if all(task in table for table in tables.values())]
    return {name: table[shared].dropna() for name, table in tables.items()}


def iqm(scores: Any) -> Interval:
    """Return the mean without the lowest and the highest quarter of the scores."""

    def middle(*tasks: np.ndarray) -> np.ndarray:
        return trim_mean(np.concatenate(tasks, axis=-1), 0.25, axis=-1)

    return bootstrap(middle, *np.asarray(scores).T, resamples=RESAMPLES)


def improvement(first: Any, second: Any) -> Interval:
    """Return Mann-Whitney's U over the number of pairs of runs, averaged over tasks."""

    def beats(*columns: np.ndarray) -> np.ndarray:
        pairs = zip(columns[: len(columns) // 2], columns[len(columns) // 2 :], strict=True)
        signs = [np.sign(one[..., :, None] - other[..., None, :]) for one, other in pairs]
        return np.mean([(1 + sign.mean(axis=(-2, -1))) / 2 for sign in signs], axis=0)

    return bootstrap(beats, *np.asarray(first).T, *np.asarray(second).T, resamples=RESAMPLES)
