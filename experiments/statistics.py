"""How sure a success rate is: an interval for one run, and one for a few seeds on the same games."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Interval:
    """A share with its confidence bounds, all in [0, 1] (in [-1, 1] for a difference)."""

    mean: float
    low: float
    high: float

    def percent(self) -> str:
        """``31.0 [24.9, 37.7]``."""
        return f"{100 * self.mean:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"


def wilson(successes: int, games: int, confidence: float = 0.95) -> Interval:
    """The score interval of Wilson (1927) without continuity correction, for one play of each game.

    Raises:
        ValueError: no game was played, or more were won than played.
    """
    from scipy.stats import binomtest  # half a second to import, so not at start-up

    if games < 1:
        raise ValueError("a success rate needs at least one game")
    bounds = binomtest(successes, games).proportion_ci(confidence, method="wilson")
    return Interval(successes / games, float(bounds.low), float(bounds.high))


def bootstrap_over_games(
    wins: Sequence[Sequence[float]], confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Interval:
    """Percentile bootstrap of the mean over seeds and games that draws games, each with all of its seeds.

    Seeds that play the same games are no independent samples of those games: hard games are hard for all of them. So
    the interval says what other games would give with these seeds. It does not cover which seeds were drawn.

    Args:
        wins: one row a seed, one column a game, in the same order of games: 1 where won, else 0 (or a share).
        confidence: the interval's coverage.
        resamples: how often the games are drawn anew.
        seed: of the drawing.

    Raises:
        ValueError: seeds with different numbers of games, or no game at all.
    """
    return _interval_of_mean(_per_game(wins), confidence, resamples, seed)


def bootstrap_difference(
    after: Sequence[Sequence[float]],
    before: Sequence[Sequence[float]],
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """What a stage added: ``bootstrap_over_games`` of after minus before, paired by game.

    Raises:
        ValueError: the two were not played on the same number of games.
    """
    gains, base = _per_game(after), _per_game(before)
    if gains.shape != base.shape:
        raise ValueError(f"{gains.size} games after, {base.size} before: a paired difference needs the same games")
    return _interval_of_mean(gains - base, confidence, resamples, seed)


def _per_game(wins: Sequence[Sequence[float]]) -> np.ndarray:
    if len({len(row) for row in wins}) != 1 or not wins[0]:
        raise ValueError(f"every seed must have played the same games; got {[len(row) for row in wins]} games")
    return np.asarray(wins, dtype=float).mean(axis=0)


def _interval_of_mean(values: np.ndarray, confidence: float, resamples: int, seed: int) -> Interval:
    from scipy.stats import bootstrap

    mean = float(values.mean())
    if np.ptp(values) == 0:  # scipy warns of a degenerate distribution, whose interval is the point
        return Interval(mean, mean, mean)
    options = {"confidence_level": confidence, "n_resamples": resamples, "method": "percentile", "batch": 1000}
    bounds = bootstrap((values,), np.mean, rng=np.random.default_rng(seed), **options).confidence_interval
    return Interval(mean, float(bounds.low), float(bounds.high))
