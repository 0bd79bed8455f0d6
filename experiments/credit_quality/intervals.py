"""Intervals over tasks, of measures and of paired differences, and cosines of policy gradients.

A gradient is a sum over games, and its product with another one a sum over pairs of games. The
truth's noise is independent from game to game, so only the product of a game with itself has it.
There, different parts of the continuations are multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from turngrid.experiments.credit_quality.measures import (
    MEASURES,
    OF_TRUTH,
    SHARES,
    SHARES_OF_TRUTH,
    Sums,
    without_noise,
)

DRAWS, LEVEL = 2000, 0.95
LABELS = {"gradient": "cosine with the true policy gradient", "adam": "the same, with Adam's scaling"}
ALL = {name: measure.label for name, measure in MEASURES.items()} | LABELS
NOISE = {name: measure.noise for name, measure in MEASURES.items()} | dict.fromkeys(LABELS, 0.0)
BEST = {name: measure.best for name, measure in MEASURES.items()} | dict.fromkeys(LABELS, 1.0)
PARTS = 4  # of the continuations
EPSILON = 1e-4  # of the mean scale: coordinates that the truth hardly moves do not decide

Table = dict[str, dict[str, "Interval"]]
Statistic = Callable[[np.ndarray], np.ndarray]  # of (draws, tasks), how often each task is drawn: (draws,)


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval; NaN if the measure is not defined."""

    estimate: float
    low: float
    high: float

    @property
    def half(self) -> float:
        return (self.high - self.low) / 2


@cache
def weights(tasks: int, draws: int = DRAWS, seed: int = 0) -> np.ndarray:
    """Return (draws, tasks): how often each task is drawn."""
    return np.random.default_rng(seed).multinomial(tasks, np.full(tasks, 1 / tasks), size=draws).astype(float)


@cache
def spread(tasks: int) -> float:
    """Return half an interval in standard deviations of the draws.

    That is Student's t times what a bootstrap of few tasks lacks, sqrt(T / (T - 1)) (Hesterberg,
    What Teachers Should Know about the Bootstrap, 2015, section 4.1). Percentiles covered less
    here.
    """
    from scipy.stats import t  # a second to import

    return float(t.ppf((1 + LEVEL) / 2, tasks - 1) * np.sqrt(tasks / (tasks - 1)))


def interval(estimate: float, draws: np.ndarray, tasks: int, share: bool = False) -> Interval:
    """Leave out draws without a value. ``share``: the bounds stay in [0, 1]."""
    known = draws[np.isfinite(draws)]
    if tasks < 2 or not len(known) or not np.isfinite(estimate):
        return Interval(float(estimate), float("nan"), float("nan"))
    if share and 0 <= estimate <= 1:
        return share_interval(float(estimate), float(known.std()), tasks)
    half = spread(tasks) * float(known.std())
    return Interval(float(estimate), estimate - half, estimate + half)


def share_interval(share: float, deviation: float, tasks: int) -> Interval:
    """Return Wilson's interval with as many independent trials as have the draws' standard
    deviation.

    Franco et al. (2019), PMC6690503, recommend it for clustered samples. Without deviation each
    task is one trial.
    """
    variance, wide = share * (1 - share), spread(tasks) ** 2
    trials = variance / deviation**2 if deviation and variance else tasks
    center = (share + wide / (2 * trials)) / (1 + wide / trials)
    half = np.sqrt(wide * variance / trials + (wide / (2 * trials)) ** 2) / (1 + wide / trials)
    return Interval(share, max(0.0, float(center - half)), min(1.0, float(center + half)))


def estimated(statistic: Statistic, tasks: int, draws: int, share: bool = False) -> Interval:
    """Return a statistic with its interval; ``share``: its bounds stay in [0, 1]."""
    return interval(float(statistic(np.ones((1, tasks)))[0]), statistic(weights(tasks, draws)), tasks, share)


def less(statistics: Mapping[str, Statistic], against: str, tasks: int, draws: int) -> dict[str, Interval]:
    """Return each statistic less one of them, on the same draws of tasks."""
    other = statistics[against]
    paired = {name: (lambda several, own=own: own(several) - other(several)) for name, own in statistics.items()}
    return {name: estimated(difference, tasks, draws) for name, difference in paired.items()}


def _over(sums: Sums, of: Callable[[Sums], np.ndarray]) -> Statistic:
    """Return a measure of the sums as a statistic."""
    return lambda several: of({name: several @ column for name, column in sums.items()})


def rated(methods: Mapping[str, Sums], draws: int = DRAWS) -> Table:
    """Return {measure: {method: interval}} from each method's sums of every task."""
    return {
        name: {
            method: estimated(_over(sums, measure.of), _tasks(sums), draws, name in SHARES)
            for method, sums in methods.items()
        }
        for name, measure in MEASURES.items()
    }


def differences(methods: Mapping[str, Sums], against: str, draws: int = DRAWS) -> Table:
    """Return {measure: {method: interval of method - against}}."""
    tasks, found = _tasks(methods[against]), {}
    for name, measure in MEASURES.items():
        statistics = {method: _over(sums, measure.of) for method, sums in methods.items()}
        found[name] = less(statistics, against, tasks, draws)
    return found


def of_truth(sums: Sums, draws: int = DRAWS) -> dict[str, Interval]:
    """Return what is known of the truth itself; ``sums`` are those of any credit."""
    tasks = _tasks(sums)
    return {name: estimated(_over(sums, of), tasks, draws, name in SHARES_OF_TRUTH) for name, of in OF_TRUTH.items()}


def _tasks(sums: Sums) -> int:
    return len(next(iter(sums.values())))


# ---- cosines of policy gradients


@dataclass(frozen=True)
class Products:
    """Inner products between games, (T, T) each.

    Attributes:
        cross: of a method's gradients with the truth's.
        own: of the method's with each other.
        truth: of the truth's with each other, without noise.
    """

    cross: np.ndarray
    own: np.ndarray
    truth: np.ndarray

    def cosine(self, several: np.ndarray) -> np.ndarray:
        """Return (draws,) for (draws, T) counts of games; NaN if the true gradient is noise."""
        cross, own, truth = (_summed(product, several) for product in (self.cross, self.own, self.truth))
        known = (truth > 0) & (own >= 0)
        size = np.sqrt(np.where(known, own * truth, 0))
        return np.where(known, np.where(size > 0, cross / np.where(size > 0, size, 1), 0.0), np.nan)


def _summed(product: np.ndarray, several: np.ndarray) -> np.ndarray:
    """Sum over all pairs of a draw's games.

    A copy of a game moves along with it, which shifts the draws; only their spread makes the
    interval.
    """
    return ((several @ product) * several).sum(axis=1)


def products(method: np.ndarray, truth: np.ndarray) -> Products:
    """Multiply (T, P) gradients, and (T, F, P) of the truth by parts of its continuations."""
    method, mean = method.astype(float), truth.mean(axis=1, dtype=float)
    own = mean @ mean.T
    for task, parts in enumerate(truth):
        own[task, task] = without_noise(parts.T.astype(float)).sum()
    return Products(method @ mean.T, method @ method.T, own)


def adam_scale(truth: np.ndarray) -> np.ndarray:
    """Return (P,): one over the root mean square of each true gradient over games."""
    root = np.sqrt((truth.mean(axis=1, dtype=float) ** 2).mean(axis=0))
    return 1 / (root + EPSILON * root.mean() + 1e-30)


def cosines(methods: Mapping[str, np.ndarray], truth: np.ndarray, against: str) -> tuple[Table, Table]:
    """Return {measure: {method: interval}} of (T, P) gradients, and of paired differences."""
    scale = adam_scale(truth).astype(truth.dtype)
    tables: tuple[Table, Table] = {}, {}
    for measure, factor in zip(LABELS, (truth.dtype.type(1), scale), strict=True):
        scaled = truth * factor
        found = {name: products(gradient * factor, scaled) for name, gradient in methods.items()}
        for table, rated in zip(tables, rated_cosines(found, against), strict=True):
            table[measure] = rated
    return tables


def rated_cosines(
    found: Mapping[str, Products], against: str, draws: int = DRAWS
) -> tuple[dict[str, Interval], dict[str, Interval]]:
    """Return intervals of each method, and of each less ``against``."""
    tasks = len(found[against].own)
    statistics: dict[str, Statistic] = {name: product.cosine for name, product in found.items()}
    own = {name: estimated(cosine, tasks, draws) for name, cosine in statistics.items()}
    return own, less(statistics, against, tasks, draws)
