import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from turngrid.algorithms.slots import StoredEpisode
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import GAMES_AGAIN, GROUPS, OWN_ROWS, SYNCHRONOUS, Method, excludes, number, word


@dataclass(kw_only=True)
class TaskReplay(Method):
    """The replay buffer of ARPO, section 3.3: scores 0 0 0 0 become 0 0 0 1.

    A win has a score above 0. Of equal scores, that of the last sample is the worst.
    """

    keep: int = number(1)
    tolerate: int | None = number(0)
    replaced: str = word("worst", "random")
    seed: int = number(0)

    requires = frozenset({GROUPS, OWN_ROWS, SYNCHRONOUS, GAMES_AGAIN})
    conflicts = (
        excludes("filter", "dynamic_sampling", reason="it samples another group where the buffer repairs one"),
    )

    _won: dict[str, list[StoredEpisode]] = field(default_factory=dict, init=False, repr=False)

    def wanted(self, turns: Turns, advantages: Tensor, step: int) -> Sequence[int]:
        return _succeeded(turns).nonzero().flatten().tolist()

    def offer(self, step: int, episodes: Sequence[StoredEpisode], turns: Turns) -> None:
        for episode in episodes:
            self._won[episode.task] = [episode, *self._won.get(episode.task, [])][: self.keep]

    def take(self, step: int) -> list[StoredEpisode]:
        return []

    def replace(self, turns: Turns, step: int) -> dict[int, StoredEpisode]:
        """Return {index of the replaced episode: stored episode}."""
        self._forget(step)
        groups: dict[int, list[int]] = defaultdict(list)
        for episode, group in enumerate(turns.group.tolist()):
            groups[group].append(episode)
        won = _succeeded(turns).tolist()
        failed = (own for own in groups.values() if not any(won[episode] for episode in own))
        chosen = (self._to_replace(own, turns, step) for own in failed)
        return {episode: held[0] for episode in chosen if (held := self._won.get(turns.tasks[episode]))}

    def _to_replace(self, group: Sequence[int], turns: Turns, step: int) -> int:
        """Return the index of the group's episode that a stored win replaces."""
        samples = sorted(group, key=lambda episode: -int(turns.episodes[episode].rpartition("_")[2]))
        if self.replaced == "random":
            return random.Random(f"{self.seed} {step} {turns.tasks[samples[0]]}").choice(samples)
        return min(samples, key=lambda episode: turns.score[episode].item())

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
    return turns.won & (turns.score > 0)
