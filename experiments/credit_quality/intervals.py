"""Intervals over tasks for measures, for paired differences and for cosines of policy gradients.

A gradient is a sum over games, so the product of two gradients is a sum over pairs of games. The
noise of the true gradient is independent between games, so it only affects a game's product with
itself. For that product, different parts of the continuations are multiplied.
"""

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np

from turngrid.experiments.credit_quality.measures import MEASURES, SHARES, Sums, ceiling, reliability, without_noise
from turngrid.records.statistics import Interval

DRAWS, LEVEL = 2000, 0.95
GRADIENT = "gradient"
PARTS = 4  # parts into which the continuations are split

Table = dict[str, dict[str, Interval]]  # by measure and method; NaN if the measure is not defined
Statistic = Callable[[np.ndarray], np.ndarray]  # maps (draws, tasks) counts of each task in a draw to (draws,) values


@cache
def weights(tasks: int, draws: int) -> np.ndarray:
    """Return how often each bootstrap draw has each task, (draws, tasks)."""
    return np.random.default_rng(0).multinomial(tasks, np.full(tasks, 1 / tasks), size=draws).astype(float)


@cache
def spread(tasks: int) -> float:
    """Return half of an interval's width, in standard deviations of the bootstrap draws.

    It is Student's t times sqrt(T / (T - 1)), which corrects the bootstrap of few tasks
    (Hesterberg, What Teachers Should Know about the Bootstrap, 2015, section 4.1). Percentile
    intervals had too low a coverage here.
    """
    from scipy.stats import t  # a second to import

    return float(t.ppf((1 + LEVEL) / 2, tasks - 1) * np.sqrt(tasks / (tasks - 1)))


def estimated(statistic: Statistic, tasks: int, draws: int, share: bool = False) -> Interval:
    """Return a statistic with its interval from the bootstrap draws that are finite."""
    estimate, drawn = float(statistic(np.ones((1, tasks)))[0]), statistic(weights(tasks, draws))
    known = drawn[np.isfinite(drawn)]
    if tasks < 2 or not len(known) or not np.isfinite(estimate):
        return Interval(estimate, float("nan"), float("nan"))
    if share and 0 <= estimate <= 1:
        return share_interval(estimate, float(known.std()), tasks)
    half = spread(tasks) * float(known.std())
    return Interval(estimate, estimate - half, estimate + half)


def share_interval(share: float, deviation: float, tasks: int) -> Interval:
    """Return Wilson's interval for the number of trials that gives this standard deviation.

    Franco et al. (2019), PMC6690503, recommend it for clustered samples. If the deviation is 0,
    each task counts as one trial.
    """
    variance, wide = share * (1 - share), spread(tasks) ** 2
    trials = variance / deviation**2 if deviation and variance else tasks
    center = (share + wide / (2 * trials)) / (1 + wide / trials)
    half = np.sqrt(wide * variance / trials + (wide / (2 * trials)) ** 2) / (1 + wide / trials)
    return Interval(share, max(0.0, float(center - half)), min(1.0, float(center + half)))


def statistics_of(methods: Mapping[str, Sums]) -> dict[str, dict[str, Statistic]]:
    """Return {measure: {method: statistic}} from each method's sums of every task."""
    return {
        name: {method: _over(sums, measure) for method, sums in methods.items()} for name, measure in MEASURES.items()
    }


def _over(sums: Sums, of: Callable[[Sums], np.ndarray]) -> Statistic:
    """Return a measure of the sums as a statistic."""
    return lambda several: of({name: several @ column for name, column in sums.items()})


def rated(
    statistics: Mapping[str, Mapping[str, Statistic]], against: str, tasks: int, draws: int = DRAWS
) -> tuple[Table, Table]:
    """Return {measure: {method: interval}}, and the same less ``against``, on the same draws."""
    ratings: Table = {}
    differences: Table = {}
    for measure, methods in statistics.items():
        paired = {name: _less(own, methods[against]) for name, own in methods.items()}
        ratings[measure] = {name: estimated(one, tasks, draws, measure in SHARES) for name, one in methods.items()}
        differences[measure] = {name: estimated(one, tasks, draws) for name, one in paired.items()}
    return ratings, differences


def _less(own: Statistic, other: Statistic) -> Statistic:
    return lambda several: own(several) - other(several)


def of_truth(sums: Sums, draws: int = DRAWS) -> dict[str, Interval]:
    """Return figures of the true advantages themselves; ``sums`` may be those of any method."""
    figures = {"reliability": reliability, "ceiling": ceiling}
    return {name: estimated(_over(sums, of), len(sums["turns"]), draws) for name, of in figures.items()}


# ---- cosines of policy gradients


def cosine(method: np.ndarray, truth: np.ndarray) -> Statistic:
    """Return the cosine of (T, P) gradients with the true ones, (T, F, P) for F parts.

    It is NaN if the truth is only noise. A game drawn twice is paired with its copy too, so only
    the draws' spread is used.
    """
    method, mean = method.astype(float), truth.mean(axis=1, dtype=float)
    squares = mean @ mean.T
    for task, parts in enumerate(truth):
        squares[task, task] = without_noise(parts.T.astype(float)).sum()
    products = (method @ mean.T, method @ method.T, squares)  # between games, (T, T) each

    def statistic(several: np.ndarray) -> np.ndarray:
        # summed over all pairs of games of a draw
        cross, own, true = (((several @ product) * several).sum(axis=1) for product in products)
        known = (true > 0) & (own >= 0)
        size = np.sqrt(np.where(known, own * true, 0))
        return np.where(known, np.where(size > 0, cross / np.where(size > 0, size, 1), 0.0), np.nan)

    return statistic
