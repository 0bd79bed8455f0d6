"""Ratings of the policies and opponents of matches, by Bradley and Terry's model on Elo's scale.

The model: i scores p = 1 / (1 + 10^((r_j - r_i) / 400)) of its matches against j on average, with
half a point for a draw. All results of an evaluation set are fitted at once, so their order has no
effect.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import log

import numpy as np

from turngrid.records.statistics import Interval, won_or_half
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.policy import RANDOM
from turngrid.tasks.evaluation_sets import EvaluationSetting

ANCHOR, RATING = RANDOM, 1000.0
SCALE = 400 / log(10)  # points of a rating in one unit of log odds
PRIOR = 0.5  # points that each of two players has against the other before they meet
RESAMPLES = 2_000
STEPS, LARGEST, CLOSE = 100, 1.0, 1e-9  # of Newton's method: steps, log odds in a step, points that are left to explain

# Returns a setting's episodes by policy, a game's episodes together
Played = Callable[[EvaluationSetting], Mapping[str, Sequence[Episode]]]


@dataclass(frozen=True)
class Rating:
    """The rating of a policy, or of an opponent, on one evaluation set at one temperature."""

    policy: str
    env: str
    task: str
    temperature: float
    rating: float
    low: float  # its 95 % bounds, from a bootstrap over openings
    high: float
    matches: int


def ratings_of(settings: Sequence[EvaluationSetting], played: Played) -> list[Rating]:
    """Return the ratings on each evaluation set with matches against ``ANCHOR``."""
    matches = [item for item in settings if item.opponent]
    return [
        rating
        for _, group in groupby(matches, lambda item: (item.evaluation_set, item.temperature))
        for rating in _rated([(item, played(item)) for item in group])
    ]


def _rated(results: Sequence[tuple[EvaluationSetting, Mapping[str, Sequence[Episode]]]]) -> list[Rating]:
    first, policies = results[0][0], [*results[0][1]]
    names = list(dict.fromkeys([*policies, *(item.opponent for item, _ in results)]))
    if ANCHOR not in names:
        return []
    points = np.zeros((first.evaluation_set.games, len(names), len(names)))
    for item, by_policy in results:
        for policy, episodes in by_policy.items():
            scores = np.reshape([won_or_half(episode) for episode in episodes], (len(points), -1))
            i, j = names.index(policy), names.index(item.opponent)
            points[:, i, j] += scores.sum(axis=1)
            points[:, j, i] += (1 - scores).sum(axis=1)
    intervals, of_set = rated(points, names.index(ANCHOR)), first.evaluation_set
    counts = points.sum(axis=(0, 2)) + points.sum(axis=(0, 1)) - 2 * np.diag(points.sum(axis=0))
    about = (of_set.env, of_set.task, first.temperature)
    return [
        Rating(name, *about, one.mean, one.low, one.high, int(count))
        for name, one, count in zip(names, intervals, counts, strict=True)
    ]


def rated(points: np.ndarray, anchor: int) -> list[Interval]:
    """Return each player's rating with its percentile interval.

    Args:
        points: (openings, players, players): points of the first player against the second one.
        anchor: the player whose rating is fixed.
    """
    games = len(points)
    drawn = np.random.default_rng(0).multinomial(games, np.full(games, 1 / games), size=RESAMPLES)
    ratings = fitted(np.concatenate([points.sum(axis=0)[None], np.tensordot(drawn, points, axes=1)]), anchor)
    low, high = np.percentile(ratings[1:], [2.5, 97.5], axis=0)
    return [Interval(*map(float, bounds)) for bounds in zip(ratings[0], low, high, strict=True)]


def fitted(points: np.ndarray, anchor: int) -> np.ndarray:
    """Return the most likely ratings, by Newton's method: (..., n, n) points to (..., n).

    Each pair that met has one drawn match more, since a rating without it would be infinite if a
    player won all matches.
    """
    points = points * (1 - np.eye(points.shape[-1]))  # matches against itself say nothing
    points = points + PRIOR * (points + points.swapaxes(-1, -2) > 0)
    matches = points + points.swapaxes(-1, -2)
    others = np.delete(np.arange(points.shape[-1]), anchor)
    odds = np.zeros(points.shape[:-1])
    for _ in range(STEPS):
        expected = 1 / (1 + np.exp(odds[..., None, :] - odds[..., :, None]))
        left = (points - matches * expected).sum(axis=-1)[..., others]
        if np.abs(left).max(initial=0.0) < CLOSE:
            break
        weights = matches * expected * (1 - expected)
        curvature = np.eye(points.shape[-1]) * weights.sum(axis=-1, keepdims=True) - weights
        step = np.linalg.solve(curvature[..., others[:, None], others], left[..., None])[..., 0]
        odds[..., others] += step.clip(-LARGEST, LARGEST)
    return RATING + SCALE * odds
