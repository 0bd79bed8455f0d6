"""Estimate the true advantage of each turn, and measure a method's credit against it.

The true advantage is the value after a turn minus the value before it. The value of a prefix is the
mean return of k episodes that begin with it and are continued by the same policy. Continuation j of
every prefix of a task draws the same random numbers, so column j is one noisy table of advantages.
Columns are independent of each other; turns in a column are not.

Each measure is computed from sums over tasks, so a bootstrap over tasks is a matrix product. A
correlation's denominator is corrected for the noise of the estimated advantages. Its numerator
needs no correction, since the advantages come from other episodes than a method's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

Sums = Mapping[str, np.ndarray]
SAME = 1e-9  # credit that differs by less is equal
SIGNIFICANT = 2.0  # standard errors
NEUTRAL, NEUTRAL_ERROR = 0.05, 0.08  # advantage and its standard error, where a win pays 1


@dataclass(frozen=True)
class Truth:
    """Estimated true advantages of N turns of E episodes, in order, from k continuations.

    Attributes:
        task, episode: (N,) int64, numbered from 0 in order of appearance.
        before, after: (N, k) returns of the continuations of the prefix before and after each turn.
            After an episode's last turn it is the episode's own return, k times.

    Raises:
        ValueError: advantages do not add up to R - V(s0).
    """

    task: np.ndarray
    episode: np.ndarray
    before: np.ndarray
    after: np.ndarray
    score: np.ndarray  # (E,) the episodes' returns

    def __post_init__(self) -> None:
        first = np.unique(self.episode, return_index=True)[1]
        total = np.bincount(self.episode, self.advantage)
        if not np.allclose(total, self.score - self.before[first].mean(axis=1), atol=1e-9):
            raise ValueError("an episode's advantages do not add up to R - V(s0): its turns are not in order")

    @property
    def k(self) -> int:
        return self.before.shape[1]

    @cached_property
    def replicas(self) -> np.ndarray:
        """Return (N, k) advantages; column j uses continuation j alone."""
        return self.after - self.before

    @cached_property
    def advantage(self) -> np.ndarray:
        """Return (N,) advantages."""
        return self.replicas.mean(axis=1)

    @cached_property
    def error(self) -> np.ndarray:
        """Return (N,) standard errors of the advantages."""
        return self.replicas.std(axis=1, ddof=1) / np.sqrt(self.k)


def truth(episodes: Sequence[tuple[int, Sequence[np.ndarray], float]]) -> Truth:
    """Build ``Truth`` from each episode's (task, k returns before each turn, return)."""
    counts = [len(values) for _, values, _ in episodes]
    last = [np.full(len(values[0]), score) for _, values, score in episodes]
    return Truth(
        task=np.repeat([task for task, _, _ in episodes], counts),
        episode=np.repeat(np.arange(len(episodes)), counts),
        before=np.concatenate([np.stack(values) for _, values, _ in episodes]).astype(float),
        after=np.concatenate(
            [np.stack([*values[1:], end]) for (_, values, _), end in zip(episodes, last, strict=True)]
        ),
        score=np.array([score for _, _, score in episodes], dtype=float),
    )


def demeaned(numbers: np.ndarray, cluster: np.ndarray) -> np.ndarray:
    """Subtract its cluster's mean from each number, column by column; (N,) or (N, k)."""
    size = np.bincount(cluster).clip(min=1)
    columns = numbers.reshape(len(numbers), -1)
    means = np.stack([np.bincount(cluster, column) / size for column in columns.T], axis=1)
    return (columns - means[cluster]).reshape(numbers.shape)


def without_noise(replicas: np.ndarray) -> np.ndarray:
    """Return (N,) unbiased estimates of the squared mean of k independent columns, (N, k).

    It is the mean product of two different columns, which equals the mean over all ways to split
    the columns into halves.
    """
    k = replicas.shape[1]
    return (replicas.sum(axis=1) ** 2 - (replicas**2).sum(axis=1)) / (k * (k - 1))


def task_sums(truth: Truth, credit: np.ndarray) -> dict[str, np.ndarray]:
    """Return the sums over each task's turns, (T,) each, for credit (N,)."""
    inside, own = demeaned(credit, truth.episode), truth.replicas - truth.advantage.mean()
    within, size = demeaned(truth.replicas, truth.episode), np.abs(credit)
    significant = np.abs(truth.advantage) > np.maximum(SIGNIFICANT * truth.error, 1e-9)
    neutral = (np.abs(truth.advantage) <= NEUTRAL) & (truth.error <= NEUTRAL_ERROR)
    same_sign = np.where(size < SAME, 0.5, np.sign(credit) == np.sign(truth.advantage))
    columns = {
        "turns": np.ones(len(credit)),
        "x": credit,
        "a": own.mean(axis=1),
        "xx": credit**2,
        "xa": credit * own.mean(axis=1),
        "aa": without_noise(own),
        "AA": own.mean(axis=1) ** 2,
        "xx_inside": inside**2,
        "xa_inside": inside * within.mean(axis=1),
        "aa_inside": without_noise(within),
        "known": significant,
        "known_right": significant * same_sign,
        "neutral": neutral,
        "neutral_size": neutral * size,
        "size": size,
    }
    return {name: np.bincount(truth.task, column) for name, column in columns.items()}


def _divided(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """Divide; return NaN where the divisor is not positive, so the measure is not defined."""
    possible = bottom > 0
    return np.where(possible, top / np.where(possible, bottom, 1), np.nan)


def _variance(s: Sums, square: str, mean: str) -> np.ndarray:
    return s[square] / s["turns"] - (s[mean] / s["turns"]) ** 2


def correlation(s: Sums) -> np.ndarray:
    shared = s["xa"] / s["turns"] - s["x"] * s["a"] / s["turns"] ** 2
    variance = _variance(s, "xx", "x")
    r = _divided(shared, np.sqrt(np.clip(variance * _variance(s, "aa", "a"), 0, None)))
    return np.where(variance > SAME * s["xx"] / s["turns"], r, 0.0)


def correlation_inside(s: Sums) -> np.ndarray:
    """Return the correlation inside episodes; 0 if credit is constant in every episode."""
    r = _divided(s["xa_inside"], np.sqrt(np.clip(s["xx_inside"] * s["aa_inside"], 0, None)))
    return np.where(s["xx_inside"] > SAME * s["xx"], r, 0.0)


def reliability(s: Sums) -> np.ndarray:
    """Return the share of the estimated advantages' variance that is not noise."""
    return _divided(_variance(s, "aa", "a"), _variance(s, "AA", "a"))


def ceiling(s: Sums) -> np.ndarray:
    """Return the highest correlation that credit constant in every episode can reach."""
    return np.sqrt(np.clip(1 - _divided(s["aa_inside"] / s["turns"], _variance(s, "aa", "a")), 0, 1))


MEASURES: dict[str, Callable[[Sums], np.ndarray]] = {
    "r": correlation,
    "r_inside": correlation_inside,
    "sign": lambda s: _divided(s["known_right"], s["known"]),
    "neutral": lambda s: _divided(_divided(s["neutral_size"], s["neutral"]), s["size"] / s["turns"]),
    "bias": lambda s: _divided(s["x"] / s["turns"], np.sqrt(np.clip(_variance(s, "xx", "x"), 0, None))),
}
BEST = {"r": 1, "r_inside": 1, "sign": 1, "neutral": 0, "bias": 0, "gradient": 1}  # values of the true advantages
SHARES = ("sign",)  # in [0, 1]
