"""One game: its group, the prefixes of the group's episodes, and the value of each, from the episodes that continue it. Kept in a file,
which grows where more samples or continuations are asked for."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from envs.text_env import TextEnv
from envs.utils.files import write_whole
from experiments.credit_quality.game_tree import GameTree
from experiments.credit_quality.rollouts import Rollouts
from rollouts.episode import Episode
from rollouts.forms.tree import branched
from rollouts.loop import EpisodeSpec

PLAYED = ("screened", "episodes")  # fields that hold episodes
CONTINUED = "continued"  # the group's name of continuations, so that they draw other random numbers than the samples
SCREENED = "screened"  # the group's name of episodes that only say how hard a game is


@dataclass(frozen=True)
class Prefix:
    """An episode's first turns; ``key`` is the same for all that begin with the same tokens."""

    key: str
    episode: Episode
    turns: int

    def spec(self, base: EpisodeSpec, number: int) -> EpisodeSpec:
        """Continuation ``number``: it has the turns that are left. Its random numbers are those of every prefix's continuation
        ``number``: where two play alike they also end alike, and their difference is no noise."""
        spec = replace(base, sample=number, prompt=f"{base.task.key} {CONTINUED}")
        return branched(spec, self.episode, self.turns) if self.turns else spec


def prefixes(episodes: Iterable[Episode]) -> dict[str, Prefix]:
    """Of every turn of the episodes; those that several share once."""
    found: dict[str, Prefix] = {}
    for episode in episodes:
        for turns, key in enumerate(keys(episode)):
            found.setdefault(key, Prefix(key, episode, turns))
    return found


def keys(episode: Episode) -> list[str]:
    """The key of the prefix before each of its turns."""
    digest = hashlib.blake2b(digest_size=12)
    found = []
    for turn in episode.turns:
        found.append(digest.hexdigest())
        digest.update(json.dumps([turn.action, *turn.action_ids]).encode())
    return found


def wanted(known: Mapping[str, Prefix], values: Mapping[str, Sequence[float]], k: int) -> list[tuple[Prefix, int]]:
    """Continuations that are still to be played: (prefix, number)."""
    return [(prefix, number) for key, prefix in known.items() for number in range(len(values.get(key, ())), k)]


@dataclass
class MeasuredGame:
    """``screened``: the episodes that said how hard it is; ``values``: of continuations, by prefix. ``seconds`` of CPU and
    ``steps`` of the environment are what the truth took."""

    key: str
    screened: list[Episode] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=dict)
    seconds: float = 0.0
    steps: int = 0

    @classmethod
    def read(cls, file: Path, key: str) -> MeasuredGame:
        if not file.exists():
            return cls(key)
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return cls(**{**data, **{name: [Episode.from_dict(one) for one in data[name]] for name in PLAYED}})

    def write(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        data = {**vars(self), **{name: [episode.to_dict() for episode in getattr(self, name)] for name in PLAYED}}
        write_whole(file, json.dumps(data, sort_keys=True) + "\n")

    def known(self, samples: int, k: int) -> bool:
        """Whether the first ``samples`` episodes have the first ``k`` continuations of all their prefixes."""
        there = self.episodes[:samples]
        return len(there) == samples and not wanted(prefixes(there), self.values, k)


@dataclass(frozen=True)
class Measurement:
    """How a game is measured. ``spec``: of its episodes, but for their numbers; ``reward``: the name of the trained one."""

    rollouts: Rollouts
    make: Callable[[], TextEnv]
    spec: EpisodeSpec
    reward: str

    async def screen(self, game: MeasuredGame, samples: int) -> None:
        """Play it with random numbers of their own."""
        left = range(len(game.screened), samples)
        tree = GameTree(self.make, self.spec.task)
        try:
            played = await self.rollouts.roll_out([self._spec(SCREENED, number) for number in left], tree)
        finally:
            tree.close()
        game.screened += played

    async def measure(self, game: MeasuredGame, samples: int, k: int) -> None:
        """Raises: NotReplayed: the environment is not the same twice. EnvError: it failed."""
        start, tree = time.process_time(), GameTree(self.make, self.spec.task)
        try:
            left = range(len(game.episodes), samples)
            game.episodes += await self.rollouts.roll_out([replace(self.spec, sample=number) for number in left], tree)
            for actions in {tuple(turn.action for turn in game.episodes[number].turns) for number in left}:
                tree.check(actions)
            await self._value(game, tree, samples, k)
        finally:
            tree.close()
        game.seconds += time.process_time() - start
        game.steps += tree.steps

    async def _value(self, game: MeasuredGame, tree: GameTree, samples: int, k: int) -> None:
        left = wanted(prefixes(game.episodes[:samples]), game.values, k)
        played = await self.rollouts.roll_out([prefix.spec(self.spec, number) for prefix, number in left], tree)
        for (prefix, number), episode in zip(left, played, strict=True):
            if keys(episode)[: prefix.turns + 1] != keys(prefix.episode)[: prefix.turns + 1]:
                raise RuntimeError(f"{game.key}: a continuation does not begin with its prefix")
            values = game.values.setdefault(prefix.key, [])
            assert len(values) == number
            values.append(sum(turn.trained(self.reward) for turn in episode.turns))

    def _spec(self, group: str, number: int) -> EpisodeSpec:
        return replace(self.spec, sample=number, prompt=f"{self.spec.task.key} {group}")
