"""SPEAR's self-imitation: what went better than its group is learned from once more, while it still is better than most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, ClassVar

from torch import Tensor

from algorithms.pools import deviations, means
from algorithms.slots import StoredEpisode, in_range
from algorithms.turns import Turns
from rewards.declared import GROUPS, SYNCHRONOUS, Requires

EPSILON = 1e-6
MOST_GROUPS = 10_240  # whose means and deviations the medians are taken over


@dataclass
class SelfImitation:
    """The replay buffer of SPEAR (arXiv 2509.22601, section 3.2, as released).

    Episodes whose advantages are above 0 on average are stored. Once more than ``1.5 * capacity`` of those held have a score
    above p50, the median of the means of the last 10,240 groups, all are given a new advantage ``A' = score - p50``, over
    ``p50 of the groups' standard deviations + 1e-6`` if ``std``; those with ``A' >= 0`` are replayed once, in an update of their own
    after the step's, and the buffer is emptied. A group that a filter took away before the baseline is none of them.

    Attributes:
        capacity: episodes; the released 2,048 counts rows of one turn each.
        tolerate: steps for which an episode is kept, counted to the newest one held.
        std: divide by the median of the groups' (biased) standard deviations; not where that is 0, since most groups' scores are
            equal: divided by 1e-6 alone, replay would be all that is learned from.
        weight: of the replay's loss; a schedule, such as ``{cosine_up: 100}``, as published.
    """

    capacity: int = 128
    tolerate: int = 5
    std: bool = True
    weight: float = 1.0

    requires: ClassVar[Requires] = frozenset({GROUPS, SYNCHRONOUS})

    def __post_init__(self) -> None:
        in_range(1, capacity=self.capacity)
        in_range(0, tolerate=self.tolerate, weight=self.weight)

    _episodes: list[StoredEpisode] = field(default_factory=list, init=False, repr=False)
    _groups: list[tuple[int, list[float], list[float]]] = field(default_factory=list, init=False, repr=False)

    def wanted(self, turns: Turns, advantages: Tensor, step: int) -> Sequence[int]:
        mean = (advantages * turns.mask).sum(dim=1) / turns.mask.sum(dim=1).clamp(min=1)
        return (mean > 0).nonzero().flatten().tolist()

    def offer(self, step: int, episodes: Sequence[StoredEpisode], turns: Turns) -> None:
        self._count(step, turns)
        newest = max((episode.step for episode in self._episodes), default=step)
        kept = [episode for episode in self._episodes if newest - episode.step <= self.tolerate]
        self._episodes = [*kept, *episodes]

    def _count(self, step: int, turns: Turns) -> None:
        while sum(len(own) for _, own, _ in self._groups) > MOST_GROUPS:
            self._groups.pop(0)
        spread = deviations(turns.score, turns.group, biased=True, size=turns.score_size)
        self._groups.append((step, means(turns.score, turns.group).tolist(), spread.tolist()))

    def take(self, step: int) -> list[StoredEpisode]:
        if not any(own for _, own, _ in self._groups):
            return []
        middle = median(mean for _, own, _ in self._groups for mean in own)
        if sum(episode.score > middle for episode in self._episodes) <= 1.5 * self.capacity:
            return []
        held, self._episodes = self._episodes, []
        spread = median(deviation for _, _, own in self._groups for deviation in own)
        scale = self.weight / (spread + EPSILON) if self.std and spread else self.weight
        judged = (replace(episode, advantage=(episode.score - middle) * scale) for episode in held)
        return [episode for episode in judged if episode.score >= middle]

    def __len__(self) -> int:
        return len(self._episodes)

    def state(self) -> dict[str, Any]:
        return {"episodes": [vars(episode) for episode in self._episodes], "groups": self._groups}

    def load(self, state: Mapping[str, Any]) -> None:
        self._episodes = [StoredEpisode(**episode) for episode in state["episodes"]]
        self._groups = [tuple(group) for group in state["groups"]]
