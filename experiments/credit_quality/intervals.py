"""Intervals over tasks, of measures and of differences between two methods on the same draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from experiments.credit_quality.measures import MEASURES, OF_TRUTH, SHARES, SHARES_OF_TRUTH, Sums

DRAWS, LEVEL = 2000, 0.95


@dataclass(frozen=True)
class Interval:
    """``estimate`` and the bounds of its 95 % interval; NaN where a measure is not defined."""

    estimate: float
    low: float
    high: float

    @property
    def half(self) -> float:
        return (self.high - self.low) / 2


@cache
def weights(tasks: int, draws: int = DRAWS, seed: int = 0) -> np.ndarray:
    """(draws, tasks): how often each task is drawn."""
    return np.random.default_rng(seed).multinomial(tasks, np.full(tasks, 1 / tasks), size=draws).astype(float)


@cache
def spread(tasks: int) -> float:
    """Half an interval in the standard deviations of the draws: Student's t, and what a bootstrap of few tasks lacks, sqrt(T / (T - 1))
    (Hesterberg, What Teachers Should Know about the Bootstrap, 2015, section 4.1). Percentiles covered less here."""
    from scipy.stats import t  # a second to import

    return float(t.ppf((1 + LEVEL) / 2, tasks - 1) * np.sqrt(tasks / (tasks - 1)))


def interval(estimate: float, draws: np.ndarray, tasks: int, share: bool = False) -> Interval:
    """Draws in which the measure is not defined are left out. ``share``: the bounds stay in [0, 1]."""
    known = draws[np.isfinite(draws)]
    if tasks < 2 or not len(known) or not np.isfinite(estimate):
        return Interval(float(estimate), float("nan"), float("nan"))
    if share and 0 <= estimate <= 1:
        return share_interval(float(estimate), float(known.std()), tasks)
    half = spread(tasks) * float(known.std())
    return Interval(float(estimate), estimate - half, estimate + half)


def share_interval(share: float, deviation: float, tasks: int) -> Interval:
    """Wilson's interval with an effective sample size: as many independent trials as have the draws' standard deviation.

    Franco et al. (2019), PMC6690503, recommend it for clustered samples. Without any deviation each task counts as one trial.
    """
    variance, wide = share * (1 - share), spread(tasks) ** 2
    trials = variance / deviation**2 if deviation and variance else tasks
    center = (share + wide / (2 * trials)) / (1 + wide / trials)
    half = np.sqrt(wide * variance / trials + (wide / (2 * trials)) ** 2) / (1 + wide / trials)
    return Interval(share, max(0.0, float(center - half)), min(1.0, float(center + half)))


def drawn(sums: Sums, draws: int) -> tuple[Sums, Sums]:
    """Sums over all tasks, and over every draw of tasks."""
    several = weights(_tasks(sums), draws)
    return {name: column.sum() for name, column in sums.items()}, {name: several @ sums[name] for name in sums}


def rated(methods: Mapping[str, Sums], draws: int = DRAWS) -> dict[str, dict[str, Interval]]:
    """{measure: {method: interval}}; ``methods``: sums of every task, of each method."""
    found: dict[str, dict[str, Interval]] = {name: {} for name in MEASURES}
    for method, sums in methods.items():
        whole, several = drawn(sums, draws)
        for name, measure in MEASURES.items():
            found[name][method] = interval(float(measure.of(whole)), measure.of(several), _tasks(sums), name in SHARES)
    return found


def differences(methods: Mapping[str, Sums], against: str, draws: int = DRAWS) -> dict[str, dict[str, Interval]]:
    """{measure: {method: interval of method - against}}, paired: both on the same draws of tasks."""
    found: dict[str, dict[str, Interval]] = {name: {} for name in MEASURES}
    theirs = drawn(methods[against], draws)
    for method, sums in methods.items():
        own = drawn(sums, draws)
        for name, measure in MEASURES.items():
            whole, several = (measure.of(mine) - measure.of(other) for mine, other in zip(own, theirs, strict=True))
            found[name][method] = interval(float(whole), several, _tasks(sums))
    return found


def of_truth(sums: Sums, draws: int = DRAWS) -> dict[str, Interval]:
    """What is known of the truth itself; ``sums`` are those of any credit."""
    whole, several = drawn(sums, draws)
    tasks = _tasks(sums)
    return {
        name: interval(float(of(whole)), of(several), tasks, name in SHARES_OF_TRUTH) for name, of in OF_TRUTH.items()
    }


def _tasks(sums: Sums) -> int:
    return len(next(iter(sums.values())))


def wanted_k(reliability: float, k: int, wanted: float) -> int:
    """Continuations a prefix for a reliability of ``wanted``, by Spearman's and Brown's formula.

    Raises:
        ValueError: nothing reliable was seen, so that no number is enough.
    """
    if not 0 < reliability < 1 or not 0 < wanted < 1:
        raise ValueError(
            f"a reliability of {wanted}: no k is known to give it, where k = {k} shows no advantages but noise"
        )
    return max(2, int(np.ceil(k * wanted * (1 - reliability) / ((1 - wanted) * reliability) - 1e-9)))


def wanted_tasks(half: float, tasks: int, wanted: float) -> int:
    """Tasks for an interval of +- ``wanted`` where ``tasks`` of them give +- ``half``."""
    return max(2, int(np.ceil(tasks * (half / wanted) ** 2 - 1e-9)))
