"""Statistics of episodes and success rates: summaries, intervals, pass@k, a paired test."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from statistics import fmean
from typing import Any

import numpy as np

from turngrid.rollouts.episode import Episode, Outcome

WINDOW = 5  # steps over which curves are smoothed
RESAMPLES = 10_000  # resamples of a bootstrap


@dataclass(frozen=True)
class Interval:
    """A share with its 95 % bounds, all in [0, 1] (in [-1, 1] for a difference)."""

    mean: float
    low: float
    high: float

    def percent(self) -> str:
        """``31.0 [24.9, 37.7]``."""
        return f"{100 * self.mean:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"


def wilson(successes: int, games: int) -> Interval:
    """Return Wilson's (1927) score interval without continuity correction, for one sample a game.

    Raises:
        ValueError: no game, or more wins than games.
    """
    from scipy.stats import binomtest  # half a second to import, so not at start-up

    bounds = binomtest(successes, games).proportion_ci(method="wilson")
    return Interval(successes / games, float(bounds.low), float(bounds.high))


def mean_interval(*shares: Any, lowest: float = 0.0) -> Interval:
    """Return the mean of one share a game, with a bootstrap over games, not over training's seeds.

    If all games are equal, a bootstrap has no variance. Each bound then has the distance of
    Wilson's bound on the share of games that could still differ.

    Args:
        shares: one vector for each evaluation set; the sum of their means is estimated.
        lowest: bound of a mean.
    """
    from scipy.stats import bootstrap

    def summed(*drawn: Any, axis: int = -1) -> Any:
        return sum(np.mean(part, axis=axis) for part in drawn)

    mean = float(summed(*shares))
    if any(np.ptp(part) for part in shares):
        options: dict[str, Any] = {"n_resamples": RESAMPLES, "method": "percentile", "batch": 1000, "rng": 0}
        bounds = bootstrap(shares, summed, **options).confidence_interval
        if bounds.low < bounds.high:
            return Interval(mean, float(bounds.low), float(bounds.high))
    doubt = wilson(0, min(map(len, shares))).high
    return Interval(mean, max(lowest, mean - doubt), min(1.0, mean + doubt))


def success_interval(samples: Sequence[Sequence[float]]) -> Interval:
    """Return the mean success of (samples, games), 1 if won, else 0.

    With one sample a game the interval is Wilson's. Episodes of one game are not independent, so
    several samples get a bootstrap over games.
    """
    if len(samples) == 1:
        return wilson(round(sum(samples[0])), len(samples[0]))
    return mean_interval(np.mean(samples, axis=0))


def pass_at_k(samples: int, wins: int, k: int) -> float:
    """Return the unbiased estimate of the chance that at least one of ``k`` samples of a game wins.

    1 - C(samples - wins, k) / C(samples, k): equation 1 of Chen et al. (2021), arXiv 2107.03374.
    """
    return 1 - comb(samples - wins, k) / comb(samples, k)


def sign_flip(differences: Sequence[int]) -> float:
    """Return the two-sided p-value of the exact sign-flip test.

    Fisher's randomisation test for matched pairs: if two policies are equally good, each game's
    difference in wins could have had the other sign. All 2^n assignments are counted. Of
    differences of -1, 0 and 1 it is McNemar's exact conditional test, as in Fagerland et al.
    (2013), doi 10.1186/1471-2288-13-91.
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


# ---- episodes


def summarise(episodes: Sequence[Episode], samples_per_game: int = 1) -> dict[str, Any]:
    """Return the measured fields of an ``EvaluationResult``; a game's episodes are adjacent."""
    won = [episode for episode in episodes if episode.won]
    turns = [turn for episode in episodes for turn in episode.played_turns]
    tokens = [len(turn.action_ids) for turn in turns if turn.action_ids]
    rows = wins_by_sample(episodes, samples_per_game)
    interval = success_interval(rows)
    return {
        "successes": len(won),
        "games": len(rows[0]),
        "samples_per_game": samples_per_game,
        "low": interval.low,
        "high": interval.high,
        "pass_at": {} if episodes[0].seat else _pass_at(rows),
        "matches": match_results(episodes, samples_per_game),
        "mean_turns_to_success": fmean(len(episode.played_turns) for episode in won) if won else None,
        "invalid_share": sum(not turn.valid for turn in turns) / max(len(turns), 1),
        "unparsed_share": sum(not turn.parsed for turn in turns) / max(len(turns), 1),
        "tokens_per_turn": fmean(tokens) if tokens else None,
        "outcomes": dict(sorted(Counter(str(episode.outcome) for episode in episodes).items())),
        "mean_score": mean_score([share_of_best(episode.outcome, episode.score) for episode in episodes]),
    }


def match_results(episodes: Sequence[Episode], samples_per_game: int) -> dict[str, dict[str, float]]:
    """Return the results of matches by seat, and of ``both``; {} if games have one seat.

    The shares won, drawn and lost are in [0, 1]; a match that was cut off is none of them. The
    score is ``won + drawn / 2``, with a 95 % interval from a bootstrap over games.
    """
    seats = sorted({episode.seat for episode in episodes} - {""})
    games = [episodes[start : start + samples_per_game] for start in range(0, len(episodes), samples_per_game)]
    return {name: _matches(games, name) for name in ("both", *seats)} if seats else {}


def _matches(games: Sequence[Sequence[Episode]], seat: str) -> dict[str, float]:
    own = [[episode for episode in game if seat in ("both", episode.seat)] for game in games]
    ends = [episode.outcome for game in own for episode in game]
    score = mean_interval([fmean(map(won_or_half, game)) for game in own])
    shares = {name: ends.count(Outcome[name.upper()]) / len(ends) for name in ("won", "drawn", "lost")}
    return {"matches": float(len(ends)), **shares, "score": score.mean, "low": score.low, "high": score.high}


def won_or_half(episode: Episode) -> float:
    """Return 1 for a match that was won, 1/2 for a draw, else 0."""
    return float(episode.won) + 0.5 * (episode.outcome is Outcome.DRAWN)


def share_of_best(outcome: str, score: float | None) -> float | None:
    """Return a share of the best score: 0 if the environment failed, None if unknown."""
    return 0.0 if score is None and outcome == Outcome.ERROR else score


def mean_score(scores: Sequence[float | None]) -> float | None:
    """Return the mean; None if a score is unknown."""
    known = [score for score in scores if score is not None]
    return fmean(known) if known and len(known) == len(scores) else None


def wins_by_sample(episodes: Sequence[Episode], samples_per_game: int) -> list[list[int]]:
    """Return one row a sample, one column a game."""
    return [[int(episode.won) for episode in episodes[sample::samples_per_game]] for sample in range(samples_per_game)]


def _pass_at(rows: Sequence[Sequence[int]]) -> dict[str, list[float]]:
    """Return pass@k with its bounds for powers of two and for all samples."""
    samples, wins = len(rows), [sum(game) for game in zip(*rows, strict=True)]
    counts = [k for k in range(2, samples + 1) if k == samples or k.bit_count() == 1]
    intervals = {str(k): mean_interval([pass_at_k(samples, game, k) for game in wins]) for k in counts}
    return {k: [interval.mean, interval.low, interval.high] for k, interval in intervals.items()}
