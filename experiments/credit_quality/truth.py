"""The true advantage of a turn, estimated: the value of what it led to less the value of where it was taken.

The value of a prefix is the mean return of k episodes that begin with it and are played on by the same policy. Continuation j of
every prefix of a task draws the same random numbers, so that column j is one noisy table of advantages: columns are independent
of each other, turns of a column are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

SIGNIFICANT = 2.0  # standard errors
NEUTRAL, NEUTRAL_ERROR = 0.05, 0.08  # advantage and its standard error, where a win pays 1


@dataclass(frozen=True)
class Truth:
    """Turns of all episodes, an episode's one after the other in their order; N turns, E episodes, k continuations.

    Attributes:
        task, episode: (N,) int64, numbered from 0 in order of appearance.
        before, after: (N, k), the return of the episode that continuation j made of the prefix before and after the turn. After
            an episode's last turn it is the episode's own return, k times.
        score: (E,) the episodes' returns.

    Raises:
        ValueError: advantages that do not add up to R - V(s0), fewer than two continuations, or one that is not finite.
    """

    task: np.ndarray
    episode: np.ndarray
    before: np.ndarray
    after: np.ndarray
    score: np.ndarray

    def __post_init__(self) -> None:
        if self.k < 2:
            raise ValueError(f"k={self.k}: the noise of the truth is known from 2 continuations on")
        if not (np.isfinite(self.before).all() and np.isfinite(self.after).all()):
            raise ValueError("a return is not finite")
        first = np.unique(self.episode, return_index=True)[1]
        total = np.bincount(self.episode, self.advantage)
        if not np.allclose(total, self.score - self.before[first].mean(axis=1), atol=1e-9):
            raise ValueError("an episode's advantages do not add up to R - V(s0): its turns are not in order")

    @property
    def k(self) -> int:
        return self.before.shape[1]

    @cached_property
    def replicas(self) -> np.ndarray:
        """(N, k): column j is the advantages as continuation j alone would have them."""
        return self.after - self.before

    @cached_property
    def advantage(self) -> np.ndarray:
        """(N,)"""
        return self.replicas.mean(axis=1)

    @cached_property
    def error(self) -> np.ndarray:
        """(N,) standard errors."""
        return self.replicas.std(axis=1, ddof=1) / np.sqrt(self.k)

    @cached_property
    def significant(self) -> np.ndarray:
        """(N,) bool: turns whose sign is known."""
        return np.abs(self.advantage) > np.maximum(SIGNIFICANT * self.error, 1e-9)

    @cached_property
    def neutral(self) -> np.ndarray:
        """(N,) bool: turns that are known to change next to nothing."""
        return (np.abs(self.advantage) <= NEUTRAL) & (self.error <= NEUTRAL_ERROR)


def truth(episodes: Sequence[tuple[int, Sequence[np.ndarray], float]]) -> Truth:
    """From (task, returns of the k continuations of each turn's prefix, the episode's return) of every episode with a turn."""
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
    """(N,) or (N, k), each column less its cluster's mean."""
    size = np.bincount(cluster).clip(min=1)
    columns = numbers.reshape(len(numbers), -1)
    means = np.stack([np.bincount(cluster, column) / size for column in columns.T], axis=1)
    return (columns - means[cluster]).reshape(numbers.shape)


def without_noise(replicas: np.ndarray) -> np.ndarray:
    """(N,) unbiased squares of what (N, k) independent columns have in common: the mean over pairs of different columns of their
    product, which is the mean over all ways to split the columns in halves."""
    k = replicas.shape[1]
    return (replicas.sum(axis=1) ** 2 - (replicas**2).sum(axis=1)) / (k * (k - 1))
