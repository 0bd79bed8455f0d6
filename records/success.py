"""Summaries of episodes: success with its interval, turns, scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from turngrid.records.statistics import pass_at_k, share_interval, success_interval
from turngrid.rollouts.episode import Episode, Outcome


def summarise(episodes: Sequence[Episode], samples_per_game: int = 1) -> dict[str, Any]:
    """Return the measured fields of an ``EvaluationResult``.

    Args:
        episodes: the episodes of each game must be adjacent.

    Raises:
        ValueError: there is no episode.
    """
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
        "pass_at": _pass_at(rows),
        "mean_turns_to_success": fmean(len(episode.played_turns) for episode in won) if won else None,
        "invalid_share": sum(not turn.valid for turn in turns) / max(len(turns), 1),
        "unparsed_share": sum(not turn.parsed for turn in turns) / max(len(turns), 1),
        "tokens_per_turn": fmean(tokens) if tokens else None,
        "outcomes": dict(sorted(Counter(str(episode.outcome) for episode in episodes).items())),
        "mean_score": mean_score([share_of_best(episode.outcome, episode.score) for episode in episodes]),
    }


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
    samples_per_game = len(rows)
    wins = [sum(game) for game in zip(*rows, strict=True)]
    counts = [k for k in range(2, samples_per_game + 1) if k == samples_per_game or k.bit_count() == 1]
    intervals = {str(k): share_interval([pass_at_k(samples_per_game, game, k) for game in wins]) for k in counts}
    return {k: [interval.mean, interval.low, interval.high] for k, interval in intervals.items()}
