"""Conditions on metrics: at which steps they hold, and a text with the figures seen there.

Each takes one array a metric, with the values of the steps so far, and a limit. A value that is not
finite is NaN.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Sequence[Array]
FIRST = LAST = 3  # steps that are averaged at the start of a run, and before the present
APART = FIRST + LAST - 1  # index of the first step at which these do not overlap
ENOUGH = 4  # differences between steps, for an estimate of their noise
LEAST = 0.05  # smallest change of a share that counts
FAR = 0.15  # the same for a share that learning itself changes


@dataclass(frozen=True)
class Condition:
    """``holds`` returns at which steps the condition holds; ``text`` what the last step shows.

    ``{other}`` in the text stands for the name of the second metric.
    """

    holds: Callable[[Arrays, float], Array]
    text: Callable[[Arrays, float], str]
    steps: int = 1  # that it looks at, up to the present


def means(values: Array) -> Array:
    """Return the mean of the ``LAST`` steps up to each step; NaN for the first ones."""
    padded = np.concatenate([np.full(LAST - 1, np.nan), values])
    return np.lib.stride_tricks.sliding_window_view(padded, LAST).mean(-1)


def _is(word: str) -> Callable[[Arrays, float], str]:
    return lambda arrays, limit: f"{arrays[0][-1]:.3g} is {word} {limit:g}"


def _lasting(word: str) -> Callable[[Arrays, float], str]:
    return lambda arrays, limit: f"{np.mean(arrays[0][-LAST:]):.3g} over the last {LAST} steps is {word} {limit:g}"


def _start_and_end(arrays: Arrays, _: float) -> str:
    return f"it went from {_starts(arrays[0])[-1]:.2g} to {np.mean(arrays[0][-LAST:]):.2g}"


def _grown(arrays: Arrays, limit: float, least: float = LEAST, soonest: int = APART) -> Array:
    """The mean is above ``limit`` times that of the first steps, and by more than ``least``."""
    start, now = _starts(arrays[0]), means(arrays[0])
    return (np.arange(len(now)) >= soonest) & (now > limit * start) & (now > start + least)


def _grown_share(arrays: Arrays, limit: float) -> Array:
    """As ``_grown``; or the complement is below 1 / ``limit`` of its start.

    A share of 0.5 cannot double. With a limit of 2, that matters for shares that start above 1/3.
    """
    rest_fell = (1 - means(arrays[0])) * limit < 1 - _starts(arrays[0])
    return _grown(arrays, limit) | (_grown(arrays, 1) & rest_fell)


def _shrunk(arrays: Arrays, limit: float) -> Array:
    return (np.arange(len(arrays[0])) >= LAST) & (means(arrays[0]) < _starts(arrays[0]) / limit)


def _starts(values: Array) -> Array:
    """Return the mean of the first steps, of which at most ``FIRST`` come before the last ones."""
    counts = np.clip(np.arange(len(values)) - LAST + 1, 1, FIRST)
    return (np.cumsum(values) / np.arange(1, len(values) + 1))[np.minimum(counts, len(values)) - 1]


def usual(values: Array) -> Array:
    """Return the median of earlier steps without zeros; NaN if there are fewer than ``FIRST``."""
    import pandas as pd

    earlier = pd.Series(values).where(lambda own: own != 0).expanding(min_periods=FIRST).median()
    return earlier.shift(1).to_numpy()


def noise(values: Array) -> Array:
    """Return the standard deviation of a step's value, up to each step.

    From successive differences (von Neumann, 1941), in which a trend hardly counts.
    """
    squares = np.square(np.diff(values, prepend=values[:1]))
    return np.sqrt(np.cumsum(squares) / np.maximum(np.arange(len(values)), 1) / 2)


def quantile(level: float, comparisons: Array, differences: Array) -> Array:
    """Return how many standard errors a two-sided interval spans to each side.

    Bonferroni's correction for the comparisons; Cornish and Fisher's expansion to Student's t, with
    two thirds of the differences as degrees of freedom, since neighbours share a step.
    """
    tail = (1 - level) / 2 / np.maximum(comparisons, 1)
    normal = -np.array([NormalDist().inv_cdf(share) for share in tail])
    freedom = np.maximum(2 * differences / 3, 1)
    return (
        normal
        + (normal**3 + normal) / (4 * freedom)
        + (5 * normal**5 + 16 * normal**3 + 3 * normal) / (96 * freedom**2)
    )


def drop(values: Array, level: float) -> tuple[Array, Array]:
    """Return the best mean before the last steps, and by how much their mean may be below it.

    Both are NaN for the first steps, whose differences are too few.
    """
    steps = np.arange(len(values), dtype=float)
    before = steps - LAST  # the last step of the steps before
    error = earlier(noise(values)) * np.sqrt(2 / LAST)
    # a step compares its mean with k earlier ones; each comparison has 1/k^2 of the level
    windows = np.maximum(before - LAST + 2, 1)
    interval = error * quantile(level, windows**2, before)
    enough = np.where(before >= ENOUGH, 1.0, np.nan)
    return enough * earlier(np.fmax.accumulate(means(values))), enough * interval


def earlier(values: Array) -> Array:
    """Return the values of ``LAST`` steps before; NaN for the first ones."""
    return np.concatenate([np.full(LAST, np.nan), values])[: len(values)]


def _fallen(arrays: Arrays, level: float) -> Array:
    best, interval = drop(arrays[0], level)
    return best - means(arrays[0]) > np.maximum(interval, LEAST * np.abs(best))


def _fallen_text(arrays: Arrays, level: float) -> str:
    best, interval = drop(arrays[0], level)
    now = np.mean(arrays[0][-LAST:])
    return f"{now:.2g} over the last {LAST} steps, {best[-1]:.2g} at its best; noise explains {interval[-1]:.2g}"


def _apart(arrays: Arrays, level: float) -> Array:
    """Since the first steps the first metric rose and the second fell, each beyond its noise."""
    first, second = arrays
    steps = np.arange(len(first), dtype=float)
    errors = np.sqrt(2 / LAST) * quantile(level, steps, steps)
    rose = means(first) - np.mean(first[:FIRST]) > noise(first) * errors
    fell = np.mean(second[:FIRST]) - means(second) > noise(second) * errors
    return (steps >= APART) & rose & fell


def _apart_text(arrays: Arrays, level: float) -> str:
    return f"{_start_and_end(arrays, level)}, and {{other}} fell"


above = Condition(lambda arrays, limit: arrays[0] > limit, _is("above"))
lasting_above = Condition(lambda arrays, limit: means(arrays[0]) > limit, _lasting("above"), LAST)
lasting_below = Condition(lambda arrays, limit: means(arrays[0]) < limit, _lasting("below"), LAST)
not_finite = Condition(lambda arrays, _: ~np.isfinite(arrays[0]), lambda *_: "it is NaN or infinite")
above_median = Condition(
    lambda arrays, limit: arrays[0] > limit * usual(arrays[0]),
    lambda arrays, _: f"{arrays[0][-1]:.3g} is {arrays[0][-1] / usual(arrays[0])[-1]:.0f} times its median",
)
grown_share = Condition(_grown_share, _start_and_end, LAST)
grown_far = Condition(partial(_grown, least=FAR), _start_and_end, LAST)
soon_grown = Condition(partial(_grown, soonest=LAST), _start_and_end, LAST)  # for a metric with little noise
shrunk = Condition(_shrunk, _start_and_end, LAST)
fallen = Condition(_fallen, _fallen_text, LAST)
ratio = Condition(
    lambda arrays, limit: arrays[0] > limit * arrays[1],
    lambda arrays, _: f"it is {arrays[0][-1] / arrays[1][-1]:.3g} times {{other}}",
)
equal = Condition(
    lambda arrays, _: means((arrays[0] == arrays[1]).astype(float)) == 1,
    lambda arrays, _: f"it and {{other}} are {arrays[0][-1]:.3g} in the last {LAST} steps",
    LAST,
)
one_sided = Condition(
    lambda arrays, _: means(((arrays[0] >= 0) & (arrays[1] > 0)).astype(float)) == 1,
    lambda arrays, _: f"no advantage was below 0 in the last {LAST} steps",
    LAST,
)
apart = Condition(_apart, _apart_text, LAST)
