"""Statistics of success rates: intervals for one run and for a few seeds, pass@k, paired tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

WINDOW = 5  # steps over which curves are smoothed
RESAMPLES = 10_000  # resamples of a bootstrap


def running_mean(values: Sequence[float]) -> list[float]:
    """Return means over the last ``WINDOW`` values, fewer at the start."""
    windows = [values[max(0, end - WINDOW) : end] for end in range(1, len(values) + 1)]
    return [float(np.mean(window)) for window in windows]


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
    """Return Wilson's (1927) score interval without continuity correction, for one sample a game.

    Raises:
        ValueError: no game, or more wins than games.
    """
    from scipy.stats import binomtest  # half a second to import, so not at start-up

    if games < 1:
        raise ValueError("a success rate needs at least one game")
    bounds = binomtest(successes, games).proportion_ci(confidence, method="wilson")
    return Interval(successes / games, float(bounds.low), float(bounds.high))


def success_interval(samples: Sequence[Sequence[float]]) -> Interval:
    """Return the mean success of several samples of the same games.

    With one sample a game the interval is Wilson's. Episodes of one game are not independent, so
    several samples get a bootstrap over games (``share_interval``).

    Args:
        samples: one row a sample, one column a game, in the same order of games: 1 if won, else 0.

    Raises:
        ValueError: as ``bootstrap_over_games``.
    """
    per_game = _per_game(samples)
    return (
        share_interval(per_game.tolist()) if len(samples) > 1 else wilson(round(float(per_game.sum())), per_game.size)
    )


def share_interval(shares: Sequence[float]) -> Interval:
    """Return the mean of one share a game in [0, 1], with a bootstrap over games."""
    return _with_doubt(bootstrap_over_games([shares]), len(shares), lowest=0.0)


def bootstrap_over_games(wins: Sequence[Sequence[float]], confidence: float = 0.95) -> Interval:
    """Return a percentile bootstrap of the mean that draws games with all their seeds.

    Seeds on the same games are not independent: hard games are hard for all of them. The interval
    says what other games would give with these seeds. It does not cover which seeds were drawn.

    Args:
        wins: one row a seed, one column a game, in one order: 1 if won, else 0 (or a share).
        confidence: the interval's coverage.

    Raises:
        ValueError: seeds with different numbers of games, or no game.
    """
    return _interval_of_mean(_per_game(wins), confidence)


def bootstrap_difference(after: Sequence[Sequence[float]], before: Sequence[Sequence[float]]) -> Interval:
    """Return ``bootstrap_over_games`` of after minus before, paired by game, in [-1, 1].

    Raises:
        ValueError: the numbers of games differ.
    """
    gains, base = _per_game(after), _per_game(before)
    if gains.shape != base.shape:
        raise ValueError(f"{gains.size} games after, {base.size} before: a paired difference needs the same games")
    return _with_doubt(_interval_of_mean(gains - base), gains.size, lowest=-1.0)


def _with_doubt(interval: Interval, games: int, lowest: float) -> Interval:
    """Widen an interval for games that are all equal, from which a bootstrap has no variance.

    Each bound then has the distance of Wilson's bound on the share of games that could still
    differ.
    """
    if interval.low < interval.high:
        return interval
    doubt = wilson(0, games).high
    return Interval(interval.mean, max(lowest, interval.mean - doubt), min(1.0, interval.mean + doubt))


def _per_game(wins: Sequence[Sequence[float]]) -> np.ndarray:
    if len({len(row) for row in wins}) != 1 or not wins[0]:
        raise ValueError(f"every seed must have played the same games; got {[len(row) for row in wins]} games")
    return np.asarray(wins, dtype=float).mean(axis=0)


def _interval_of_mean(values: np.ndarray, confidence: float = 0.95) -> Interval:
    from scipy.stats import bootstrap

    mean = float(values.mean())
    if np.ptp(values) == 0:  # scipy warns of a degenerate distribution, whose interval is the point
        return Interval(mean, mean, mean)
    options = {"confidence_level": confidence, "n_resamples": RESAMPLES, "method": "percentile", "batch": 1000}
    bounds = bootstrap((values,), np.mean, rng=0, **options).confidence_interval
    return Interval(mean, float(bounds.low), float(bounds.high))


def pass_at_k(samples: int, wins: int, k: int) -> float:
    """Return the unbiased estimate of the chance that at least one of ``k`` samples of a game wins.

    1 - C(samples - wins, k) / C(samples, k): equation 1 of Chen et al. (2021), arXiv 2107.03374.

    Raises:
        ValueError: fewer samples than k, or k below 1.
    """
    if not 1 <= k <= samples:
        raise ValueError(f"pass@{k} needs between 1 and {samples} of the {samples} samples")
    return 1 - comb(samples - wins, k) / comb(samples, k)


def mcnemar(gained: int, lost: int) -> float:
    """Return the two-sided p-value of McNemar's exact conditional test on pairs of episodes.

    If two policies are equally good, a game that only one of them wins goes to either with even
    odds. Twice the smaller binomial tail, at most 1; Fagerland et al. (2013), doi
    10.1186/1471-2288-13-91.

    Args:
        gained: games that only the second policy won.
        lost: games that only the first one won.
    """
    return sign_flip([1] * gained + [-1] * lost)


def sign_flip(differences: Sequence[int]) -> float:
    """Return the two-sided p-value of the exact sign-flip test; of -1, 0 and 1 it is ``mcnemar``.

    Fisher's randomisation test for matched pairs: if two policies are equally good, each game's
    difference could have had the other sign. All 2^n assignments are counted, by convolution.

    Args:
        differences: one a game: wins of the second policy minus wins of the first.
    """
    observed = abs(sum(differences))
    sums = Counter({0: 1})
    for size in filter(None, map(abs, differences)):
        longer: Counter[int] = Counter()
        for total, ways in sums.items():
            longer[total + size] += ways
            longer[total - size] += ways
        sums = longer
    extreme = sum(ways for total, ways in sums.items() if abs(total) >= observed)
    return extreme / sum(sums.values())
