"""ARPO's experience replay (of GUI agents): a group that failed as a whole gets an episode that once won its task."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from algorithms.slots import StoredEpisode, in_range
from algorithms.turns import Turns
from rewards.declared import GROUPS, OWN_ROWS, SYNCHRONOUS, Conflict, Requires


@dataclass
class TaskReplay:
    """The replay buffer of ARPO (arXiv 2505.16282, section 3.3; rules where it is silent: docs/methods.md).

    Won episodes with a score above 0 are stored by task. Where no episode of a group is one, the stored one takes the place of
    that with the lowest score, of equal ones the last sample, before the baseline: scores 0 0 0 0 are learned from as 0 0 0 1.

    Attributes:
        keep: episodes a task, the newest.
        tolerate: steps after which an episode is forgotten; null: never, as published.
    """

    keep: int = 1
    tolerate: int | None = 20

    requires: ClassVar[Requires] = frozenset({GROUPS, OWN_ROWS, SYNCHRONOUS})
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict(
            ("filter",),
            lambda _, names: "dynamic_sampling" in names,
            "it would sample another group in the place of one that the buffer repairs",
            "filter=[]",
        ),
    )

    def __post_init__(self) -> None:
        in_range(1, keep=self.keep)
        in_range(0, tolerate=self.tolerate or 0)

    _won: dict[str, list[StoredEpisode]] = field(default_factory=dict, init=False, repr=False)

    def wanted(self, turns: Turns, advantages: Tensor, step: int) -> Sequence[int]:
        return _succeeded(turns).nonzero().flatten().tolist()

    def offer(self, step: int, episodes: Sequence[StoredEpisode], turns: Turns) -> None:
        for episode in episodes:
            self._won[episode.task] = [episode, *self._won.get(episode.task, [])][: self.keep]

    def take(self, step: int) -> list[StoredEpisode]:
        return []

    def replace(self, turns: Turns, step: int) -> dict[int, StoredEpisode]:
        """By the number of the episode whose place it takes."""
        self._forget(step)
        groups: dict[int, list[int]] = defaultdict(list)
        for episode, group in enumerate(turns.group.tolist()):
            groups[group].append(episode)
        won, scores = _succeeded(turns).tolist(), turns.score.tolist()
        failed = (own for own in groups.values() if not any(won[episode] for episode in own))
        samples = [int(name.rpartition("_")[2]) for name in turns.episodes]
        worst = (min(own, key=lambda episode: (scores[episode], -samples[episode])) for own in failed)
        return {episode: held[0] for episode in worst if (held := self._won.get(turns.tasks[episode]))}

    def _forget(self, step: int) -> None:
        if self.tolerate is None:
            return
        young = {task: [e for e in held if step - e.step <= self.tolerate] for task, held in self._won.items()}
        self._won = {task: held for task, held in young.items() if held}

    def __len__(self) -> int:
        return sum(len(held) for held in self._won.values())

    def state(self) -> dict[str, Any]:
        return {"episodes": [vars(episode) for held in self._won.values() for episode in held]}

    def load(self, state: Mapping[str, Any]) -> None:
        self._won = {}
        for episode in state["episodes"]:
            self._won.setdefault(episode["task"], []).append(StoredEpisode(**episode))


def _succeeded(turns: Turns) -> Tensor:
    """(E,) bool."""
    return turns.won & (turns.score > 0)
