"""Differences between settings, with an interval over games and seeds, and verdicts on claims.

A claim about a method should hold for other games and other seeds. Success y = mean + game + seed +
residual is a two-way layout. The variance of a contrast of means is estimated by a + b:

    a = sum over evaluation sets of var(d_g) / games
    b = var(c_s) / seeds

Here d_g is the contrast on game g, averaged over seeds, and c_s that of seed s, over games.

The sum counts the residual variance twice, so the interval is conservative. The bounds are
Student's with Satterthwaite's degrees of freedom (1946, Biometrics Bulletin 2, p. 110): (a + b)^2 /
(a^2 / (games - 1) + b^2 / (seeds - 1)).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from math import sqrt

import numpy as np

from turngrid.experiments.report.cells import by_set
from turngrid.experiments.report.runs import ReportedRun, except_axis, value_name
from turngrid.experiments.report.samples import Sample, Unfilled, samples
from turngrid.experiments.sweep.definition import Selector, Takeaway, flattened
from turngrid.experiments.sweep.record import Sweep
from turngrid.records.statistics import Interval, wilson

MIN_SEEDS = 2
Part = tuple[int, Selector]  # weight (+1 or -1) and selector


class Word(StrEnum):
    """A verdict on a claim."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    NOT_ENOUGH = "not enough data"


@dataclass(frozen=True)
class Contrast:
    """A sum of success rates, or of mean scores, with weights of +1 and -1."""

    interval: Interval  # 95 %, over games and seeds; in [-1, 1], with ``minus`` in [-2, 2]
    p: float  # two-sided p of the same test, that the contrast is 0
    by_seed: Mapping[int, float]  # the contrast of each seed
    games: int  # of the smallest evaluation set
    settings: int  # number of pairs of settings in the mean
    left_out: tuple[str, ...] = ()  # why other pairs of settings are not in the mean


@dataclass(frozen=True)
class Comparison:
    """A claim with its verdict, or the difference between two values of an axis."""

    name: str  # the claim, or ``gigpo − grpo``
    detail: str  # a claim's two sides, or a difference's evaluation set ("" if there is only one)
    contrast: Contrast | None
    why: str = ""  # the reason for the verdict, or why there is no contrast
    word: Word | None = None


def verdicts(sweep: Sweep, runs: Sequence[ReportedRun]) -> list[Comparison]:
    """Judge the sweep's declared takeaways, in their order."""
    return [_verdict(takeaway, runs) for takeaway in sweep.takeaways]


def _verdict(takeaway: Takeaway, runs: Sequence[ReportedRun]) -> Comparison:
    detail = f"{_side(takeaway.higher)} against {_side(takeaway.lower)}"
    try:
        difference = contrast(runs, _parts(takeaway.higher, 1) + _parts(takeaway.lower, -1))
    except Unfilled as error:
        return Comparison(takeaway.claim, detail, None, f"{error}.", Word.NOT_ENOUGH)
    word, why = judged(difference)
    return Comparison(takeaway.claim, detail, difference, why, word)


def judged(difference: Contrast) -> tuple[Word, str]:
    """Return a verdict and its reason: whether the interval lies wholly above or below zero."""
    word, why = Word.NOT_ENOUGH, "the 95 % interval includes zero, so it could be either way."
    if difference.interval.low > 0:
        word, why = Word.HOLDS, "the 95 % interval lies wholly above zero."
    elif difference.interval.high < 0:
        word, why = Word.DOES_NOT_HOLD, "the 95 % interval lies wholly below zero: it is the other way round."
    if left_out := difference.left_out:
        why += f" {len(left_out)} comparison(s) left out: {'; '.join(left_out)}."
    return word, why


def _parts(side: dict[str, str | Selector], sign: int) -> list[Part]:
    own, *less = flattened(side)
    return [(sign, own), *((-sign, selector) for selector in less)]


def _side(side: dict[str, str | Selector]) -> str:
    names = [" ".join(f"{key}={value}" for key, value in selector.items()) for selector in flattened(side)]
    return " minus ".join(f"({name})" for name in names)


def differences(runs: Sequence[ReportedRun]) -> list[Comparison]:
    """Compare every two values of each axis, between runs that are equal on all other axes."""
    several = any(len(run.evaluation_sets) > 1 for run in runs)
    sets = list(dict.fromkeys("/".join(one) for run in runs for one in run.evaluation_sets)) if several else [""]
    compared = []
    for axis in dict.fromkeys(axis for run in runs for axis in run.coordinates):
        values = dict.fromkeys(run.coordinates[axis] for run in runs if axis in run.coordinates)
        groups = except_axis(runs, axis)
        for second, first in combinations(values, 2):
            whole = [group for group in groups if {first, second} <= {run.coordinates.get(axis) for run in group}]
            both = [run for group in whole for run in group]
            name = f"{value_name(axis, first)} − {value_name(axis, second)}"
            for on in sets if both else ():
                sides = [{axis: value, **({"evaluation_set": on} if on else {})} for value in (first, second)]
                try:
                    compared.append(Comparison(name, on, contrast(both, list(zip((1, -1), sides, strict=True)))))
                except Unfilled as error:
                    compared.append(Comparison(name, on, None, str(error)))
    return compared


def contrast(runs: Sequence[ReportedRun], parts: Sequence[Part]) -> Contrast:
    """Compute the contrast, paired by setting, seed and game, averaged over other axes.

    Raises:
        Unfilled: a part has no data, or the parts have fewer than ``MIN_SEEDS`` seeds in common.
    """
    rows, left_out = samples(runs, [selector for _, selector in parts])
    flat: list[tuple[float, Sample]] = [
        (weight / len(rows), item) for row in rows for (weight, _), item in zip(parts, row, strict=True)
    ]
    seeded = [set(item.seeds) for _, item in flat if item.seeds]  # a base model has no seeds
    seeds = sorted(set.intersection(*seeded)) if seeded else []
    if len(seeds) < MIN_SEEDS:
        plural = "s" * (len(seeds) != 1)
        raise Unfilled(f"{len(seeds)} seed{plural} in common, and an interval needs {MIN_SEEDS} or more")
    if (games := min(item.games for _, item in flat)) < 2:
        raise Unfilled("1 game, and an interval needs 2 or more")
    by_seed = [sum(weight * float(item.of_seeds([seed]).mean()) for weight, item in flat) for seed in seeds]
    over_games = sum(float(vector.var(ddof=1)) / vector.size for vector in by_set(flat, seeds))
    bounds, p = interval_and_p(by_seed, over_games, games, limit=len(parts) / 2)
    return Contrast(bounds, p, dict(zip(seeds, by_seed, strict=True)), games, len(rows), tuple(left_out))


def interval_and_p(
    by_seed: Sequence[float], over_games: float, games: int, limit: float = 1.0
) -> tuple[Interval, float]:
    """Return the module's interval and the two-sided p; ``over_games`` is its a.

    If the variance is 0, p is that of the sign-flip test, and half of the interval's width is
    Wilson's upper bound on the share of games that differ; with so few games that no p is below .05
    the interval is as wide as can be.
    """
    from scipy.stats import t

    mean, seeds = float(np.mean(by_seed)), len(by_seed)
    over_seeds = float(np.var(by_seed, ddof=1)) / seeds
    if over_games + over_seeds < 1e-12:
        least = 2.0 ** (1 - games)
        half, p = wilson(0, games).high if least < 0.05 else 2 * limit, least if abs(mean) > 1e-12 else 1.0
    else:
        error = sqrt(over_games + over_seeds)
        freedom = error**4 / (over_games**2 / max(games - 1, 1) + over_seeds**2 / (seeds - 1))
        half, p = float(t.ppf(0.975, freedom)) * error, float(2 * t.sf(abs(mean) / error, freedom))
    return Interval(mean, max(-limit, mean - half), min(limit, mean + half)), p
