from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from torch import Tensor

from turngrid.algorithms.pools import EPSILON, deviations, means
from turngrid.algorithms.slots import StoredEpisode
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import GROUPS, SYNCHRONOUS, Method, number

MOST_GROUPS = 10_240  # number of groups over whose means and deviations the medians are taken


@dataclass(kw_only=True)
class SelfImitation(Method):
    """The replay buffer of SPEAR, section 3.2.

    Episodes whose advantages are above 0 on average are stored. Let p50 be the median of the means
    of the last 10,240 groups. Once more than ``1.5 * capacity`` stored episodes score above p50,
    each gets a new advantage ``A' = score - p50``. With ``std`` it is divided by the median of the
    groups' (biased) standard deviations + 1e-6, unless that median is 0: divided by 1e-6 alone,
    replay would dominate. Episodes with ``A' >= 0`` are replayed once, in a separate update after
    the step's, and the buffer is emptied.
    """

    capacity: int = number(1)
    tolerate: int = number(0)
    std: bool
    weight: float = number(0)

    requires = frozenset({GROUPS, SYNCHRONOUS})

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
