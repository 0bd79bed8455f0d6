"""A difference between settings with one interval over games and seeds.

A claim about a method is one about other games and other seeds, so both are drawn: success y = mean + game + seed + rest
is a two-way layout, and the variance of a contrast of means is estimated by

    a = sum over evaluation sets of var(d_g) / games        d_g: the contrast on game g, averaged over seeds
    b = var(c_s) / seeds                           c_s: the contrast of seed s, averaged over games

whose sum counts the rest twice and so errs on the wide side. The bounds are Student's with Satterthwaite's degrees of
freedom (1946, Biometrics Bulletin 2, p. 110): (a + b)^2 / (a^2 / (games - 1) + b^2 / (seeds - 1)).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from experiments.report.runs import Run
from experiments.report.selection import Choice, Sample, Unfilled, by_context, sample
from records.statistics import Interval, wilson

MIN_SEEDS = 2


class TooFewSeeds(Unfilled):
    """There are results, but not enough of them."""


Part = tuple[int, Choice]  # +1 or -1, and what it takes
Weighted = tuple[float, Sample]


@dataclass(frozen=True)
class Contrast:
    """A sum of success rates, or of mean scores, with weights of +1 and -1.

    Attributes:
        interval: 95 %, over games and seeds; in [-1, 1], with ``minus`` in [-2, 2].
        p: two-sided, of the test that belongs to the interval: is the contrast 0?
        by_seed: the contrast of each seed.
        games: of the smallest evaluation set.
        settings: pairs of settings that it is the mean of.
        left_out: why further ones are not in it.
    """

    interval: Interval
    p: float
    by_seed: Mapping[int, float]
    games: int
    settings: int
    left_out: tuple[str, ...] = ()


def contrast(runs: Sequence[Run], parts: Sequence[Part]) -> Contrast:
    """The mean over all settings of the axes that no part names, paired by these, by seed and (on one evaluation set)
    by game.

    Raises:
        TooFewSeeds: fewer than two that all parts have.
        Unfilled: a part has no data.
    """
    named = sorted({axis for _, choice in parts for axis in choice.axes})
    rows: list[list[Weighted]] = []
    problems: list[str] = []
    for group in by_context(runs, named).values():
        try:
            rows.append([(weight, sample(group, choice)) for weight, choice in parts])
        except Unfilled as error:
            problems.append(str(error))
    if not rows:
        raise Unfilled("; ".join(dict.fromkeys(problems)) or "no such run")
    return _contrast(rows, tuple(dict.fromkeys(problems)))


def _contrast(rows: Sequence[Sequence[Weighted]], left_out: tuple[str, ...]) -> Contrast:
    flat = [(weight / len(rows), item) for row in rows for weight, item in row]
    seeded = [set(item.seeds) for _, item in flat if item.seeded]  # a base model has no say in it
    seeds = sorted(set.intersection(*seeded)) if seeded else []
    if len(seeds) < MIN_SEEDS:
        raise TooFewSeeds(
            f"{len(seeds)} seed{'s' * (len(seeds) != 1)} in common, and an interval needs {MIN_SEEDS} or more"
        )
    by_seed = [sum(weight * _of_seed(item, seed) for weight, item in flat) for seed in seeds]
    games = min(item.games for _, item in flat)
    over_games = game_variance(flat, seeds)
    bounds = interval(by_seed, over_games, games, limit=sum(abs(weight) for weight, _ in flat) / 2)
    p = p_value(by_seed, over_games, games)
    return Contrast(bounds, p, dict(zip(seeds, by_seed, strict=True)), games, len(rows), left_out)


def _of_seed(item: Sample, seed: int) -> float:
    return float(item.means[item.seeds.index(seed)] if item.seeded else item.means[0])


def game_variance(parts: Sequence[Weighted], seeds: Sequence[int]) -> float:
    """Variance of the contrast over games: paired on each evaluation set; where episodes are missing, as if nothing
    were paired."""
    total = 0.0
    evaluation_sets: dict[str, np.ndarray] = {}
    for weight, item in parts:
        if item.shares is None:
            mean = float(item.means.mean())
            total += weight**2 * mean * (1 - mean) / item.games
            continue
        rows = [item.seeds.index(seed) for seed in seeds] if item.seeded else [0]
        evaluation_sets[item.evaluation_set] = evaluation_sets.get(
            item.evaluation_set, np.zeros(item.games)
        ) + weight * item.shares[rows].mean(axis=0)
    return total + sum(float(vector.var(ddof=1)) / vector.size for vector in evaluation_sets.values())


def interval(by_seed: Sequence[float], over_games: float, games: int, limit: float = 1.0) -> Interval:
    """The module's formula; ``over_games`` is ``a``. Where nothing varied, the bounds lie as far off as Wilson's bound on
    the share of games that could still differ."""
    from scipy.stats import t

    mean = float(np.mean(by_seed))
    error, freedom = _error(by_seed, over_games, games)
    half = float(t.ppf(0.975, freedom)) * error if error else wilson(0, games).high
    return Interval(mean, max(-limit, mean - half), min(limit, mean + half))


def p_value(by_seed: Sequence[float], over_games: float, games: int) -> float:
    """Two-sided, by the same standard error. Where nothing varied, the exact sign-flip test over games that all differ alike."""
    from scipy.stats import t

    mean = float(np.mean(by_seed))
    error, freedom = _error(by_seed, over_games, games)
    if error:
        return float(2 * t.sf(abs(mean) / error, freedom))
    return 2.0 ** (1 - games) if abs(mean) > 1e-12 else 1.0


def _error(by_seed: Sequence[float], over_games: float, games: int) -> tuple[float, float]:
    """Standard error and Satterthwaite's degrees of freedom; zeros where nothing varied."""
    over_seeds = float(np.var(by_seed, ddof=1)) / len(by_seed)
    variance = over_games + over_seeds
    if variance < 1e-12:
        return 0.0, 0.0
    freedom = variance**2 / (over_games**2 / max(games - 1, 1) + over_seeds**2 / (len(by_seed) - 1))
    return sqrt(variance), freedom
