"""What is measured of a method's credit, each from sums over tasks, so that a bootstrap over tasks is a matrix product.

Correlations are with the true advantage: its noise is taken out of the denominator, and none is in the numerator, since the
episodes that a method sees are not those that the truth is estimated from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from experiments.credit_quality.truth import Truth, demeaned, without_noise

Sums = Mapping[str, np.ndarray]
SAME = 1e-9  # credit that differs by less is equal


@dataclass(frozen=True)
class Measure:
    """``of`` takes sums over tasks, of any shape. ``noise`` is what random numbers are rated, ``best`` what the truth is."""

    label: str
    of: Callable[[Sums], np.ndarray]
    noise: float
    best: float


def task_sums(truth: Truth, credit: np.ndarray, without: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Sums of every task, (T,) each.

    Args:
        credit: (N,)
        without: (n, N), the same credit where one sample of every group was left out; NaN on that sample's own turns.
    """
    inside, own = demeaned(credit, truth.episode), truth.replicas - truth.advantage.mean()
    within, size = demeaned(truth.replicas, truth.episode), np.abs(credit)
    same_sign = np.where(size < SAME, 0.5, np.sign(credit) == np.sign(truth.advantage))
    found = {
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
        "known": truth.significant,
        "known_right": truth.significant * same_sign,
        "neutral": truth.neutral,
        "neutral_size": truth.neutral * size,
        "size": size,
        "jackknife": _of_companions(credit, without) if without is not None else np.full(len(credit), np.nan),
    }
    return {name: np.bincount(truth.task, column) for name, column in found.items()}


def _of_companions(credit: np.ndarray, without: np.ndarray) -> np.ndarray:
    """(N,) the jackknife's variance of a turn's credit over the choice of the other samples of its group."""
    there = np.isfinite(without)
    count = there.sum(axis=0).clip(min=1)
    mean = np.where(there, without, 0).sum(axis=0) / count
    squares = np.where(there, without - mean, 0) ** 2
    return (count - 1) / count * squares.sum(axis=0)


def _divided(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """NaN where there is nothing to divide by: no turn of the kind, or no variance that noise does not explain."""
    possible = bottom > 0
    return np.where(possible, top / np.where(possible, bottom, 1), np.nan)


def _variance(s: Sums, square: str, mean: str) -> np.ndarray:
    return s[square] / s["turns"] - (s[mean] / s["turns"]) ** 2


def correlation(s: Sums) -> np.ndarray:
    shared = s["xa"] / s["turns"] - s["x"] * s["a"] / s["turns"] ** 2
    variance = _variance(s, "xx", "x")
    found = _divided(shared, np.sqrt(np.clip(variance * _variance(s, "aa", "a"), 0, None)))
    return np.where(variance > SAME * s["xx"] / s["turns"], found, 0.0)


def correlation_inside(s: Sums) -> np.ndarray:
    """0 for credit that is constant in every episode."""
    found = _divided(s["xa_inside"], np.sqrt(np.clip(s["xx_inside"] * s["aa_inside"], 0, None)))
    return np.where(s["xx_inside"] > SAME * s["xx"], found, 0.0)


def reliability(s: Sums) -> np.ndarray:
    """The share of the estimated advantages' variance that is no noise; the correlation of two such estimates."""
    return _divided(_variance(s, "aa", "a"), _variance(s, "AA", "a"))


def ceiling(s: Sums) -> np.ndarray:
    """The largest correlation that credit can reach which is constant in every episode."""
    return np.sqrt(np.clip(1 - _divided(s["aa_inside"] / s["turns"], _variance(s, "aa", "a")), 0, 1))


MEASURES: dict[str, Measure] = {
    "r": Measure("correlation with the true advantage", correlation, 0, 1),
    "r_inside": Measure("correlation inside episodes", correlation_inside, 0, 1),
    "sign": Measure("sign right where it is known", lambda s: _divided(s["known_right"], s["known"]), 0.5, 1),
    "neutral": Measure(
        "size on neutral turns, of the mean",
        lambda s: _divided(_divided(s["neutral_size"], s["neutral"]), s["size"] / s["turns"]),
        1,
        0,
    ),
    "bias": Measure(
        "mean, in standard deviations",
        lambda s: _divided(s["x"] / s["turns"], np.sqrt(np.clip(_variance(s, "xx", "x"), 0, None))),
        0,
        0,
    ),
    "variance": Measure("share of other samples' luck", lambda s: _divided(s["jackknife"], s["xx"]), 0, 0),
}
OF_TRUTH: dict[str, Callable[[Sums], np.ndarray]] = {
    "reliability": reliability,
    "ceiling": ceiling,
    "significant": lambda s: s["known"] / s["turns"],
    "neutral": lambda s: s["neutral"] / s["turns"],
    "sd": lambda s: np.sqrt(np.clip(_variance(s, "aa", "a"), 0, None)),
}
SHARES, SHARES_OF_TRUTH = ("sign", "variance"), ("significant", "neutral")  # in [0, 1]
