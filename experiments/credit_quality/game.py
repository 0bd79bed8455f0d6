"""Measure one game: its states, a group of episodes, and the value of each prefix of an episode."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from turngrid.envs.text_env import TextEnv
from turngrid.envs.types import Observation, StepResult, TaskRef
from turngrid.envs.utils.files import write_whole
from turngrid.records.process.exit_codes import Refusal
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.forms.tree import branched
from turngrid.rollouts.loop import EpisodeSpec

REASON = "the value of a state is measured by going back to it, so the environment must replay exactly"
EPISODES = ("screened", "episodes")  # fields of MeasuredGame that hold episodes


@dataclass(eq=False)
class Node:
    """The state of a game after some actions."""

    actions: tuple[str, ...]
    observation: Observation
    result: StepResult | None = None
    children: dict[str, Node] = field(default_factory=dict)
    graded: StepResult | None = None  # the result if an episode is cut off here


class GameTree:
    """A game that caches the result of every action, so that no step is run twice."""

    def __init__(self, make: Callable[[], TextEnv], task: TaskRef) -> None:
        self._make, self.task, self._env = make, task, make()
        self.root = Node((), self._env.reset(task, task.seed))
        self._at: Node | None = self.root  # the live environment's node; None: its episode is over

    async def open(self) -> ReplaySession:
        return ReplaySession(self, self.root)

    def close(self) -> None:
        self._env.close()

    def child(self, node: Node, action: str) -> Node:
        """Return the node after an action.

        Raises:
            EnvError: the environment failed.
            Refusal: repeating the actions led to another state.
        """
        if action not in node.children:
            self._go_to(node)
            result = self._env.step(action)
            node.children[action] = child = Node((*node.actions, action), result.observation, result)
            self._at = None if result.over else child
        return node.children[action]

    def graded(self, node: Node) -> StepResult:
        """Return the environment's result if an episode is cut off here."""
        if node.graded is None:
            self._go_to(node)
            node.graded, self._at = self._env.finish(), None
        return node.graded

    def _go_to(self, node: Node) -> None:
        if self._at is not node:
            self._repeat(self._env, node)
            self._at = node

    def check(self, actions: Sequence[str]) -> None:
        """Repeat the actions on a fresh environment; raise Refusal if the results differ."""
        node = self.root
        for action in actions:
            node = self.child(node, action)
        with closing(self._make()) as env:
            self._repeat(env, node)

    def _repeat(self, env: TextEnv, node: Node) -> None:
        at = self.root
        if env.reset(self.task, self.task.seed) != at.observation:
            raise Refusal(f"{self.task.key} begins otherwise when it is reset again: {REASON}")
        for number, action in enumerate(node.actions, 1):
            at = at.children[action]
            if env.step(action) != at.result:
                again = f"{action!r}, action {number}, is answered otherwise when the same actions are repeated"
                raise Refusal(f"{self.task.key}: {again}: {REASON}")


@dataclass
class ReplaySession:
    """A ``rollouts.begin.Session`` that runs on a ``GameTree``."""

    tree: GameTree
    node: Node

    async def reset(self, task: TaskRef, seed: int) -> Observation:
        self.node = self.tree.root
        return self.node.observation

    async def step(self, action: str) -> StepResult:
        self.node = self.tree.child(self.node, action)
        assert self.node.result is not None
        return replace(self.node.result, info=dict(self.node.result.info))

    async def finish(self) -> StepResult:
        return self.tree.graded(self.node)

    async def close(self) -> None: ...


# ---- measurements


def prefixes(episodes: Iterable[Episode]) -> dict[str, tuple[Episode, int]]:
    """Return the episodes' distinct prefixes, one before each turn: key -> (episode, turns)."""
    by_key: dict[str, tuple[Episode, int]] = {}
    for episode in episodes:
        for turns, key in enumerate(keys(episode)):
            by_key.setdefault(key, (episode, turns))
    return by_key


def keys(episode: Episode) -> list[str]:
    """Return the key of the prefix before each turn: a hash of its tokens."""
    digest = hashlib.blake2b(digest_size=12)
    digests = []
    for turn in episode.turns:
        digests.append(digest.hexdigest())
        digest.update(json.dumps([turn.action, *turn.action_ids]).encode())
    return digests


def token_counts(episode: Episode) -> list[int]:
    """Return the number of action tokens of each turn."""
    return [len(turn.action_ids) - episode.muted(turn) for turn in episode.turns]


def score(episode: Episode, reward: str) -> float:
    """Return the episode's return under ``reward``, summed over its turns."""
    return sum(turn.trained(reward) for turn in episode.turns)


@dataclass
class MeasuredGame:
    """The measurements of a game so far."""

    key: str
    screened: list[Episode] = field(default_factory=list)  # they show how hard the game is
    episodes: list[Episode] = field(default_factory=list)  # the rated group of samples
    values: dict[str, list[float]] = field(default_factory=dict)  # continuations' returns by prefix

    @classmethod
    def read(cls, file: Path, key: str) -> MeasuredGame:
        if not file.exists():
            return cls(key)
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return cls(**{**data, **{name: [Episode.from_dict(one) for one in data[name]] for name in EPISODES}})

    def write(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        data = {**vars(self), **{name: [episode.to_dict() for episode in getattr(self, name)] for name in EPISODES}}
        write_whole(file, json.dumps(data, sort_keys=True) + "\n")

    def known(self, samples: int, k: int) -> bool:
        """Return whether all prefixes of ``samples`` episodes have ``k`` continuations."""
        continued = (len(self.values.get(key, ())) >= k for key in prefixes(self.episodes[:samples]))
        return len(self.episodes) >= samples and all(continued)


# Returns episodes of one game in the order of their specs; raises EnvError if the environment fails
Rollouts = Callable[[Sequence[EpisodeSpec], GameTree], Awaitable[list[Episode]]]


@dataclass(frozen=True)
class Measurement:
    """Settings of a game's measurement; ``reward`` is the trained reward's name."""

    rollouts: Rollouts
    make: Callable[[], TextEnv]
    spec: EpisodeSpec
    reward: str

    async def screen(self, game: MeasuredGame, samples: int) -> None:
        """Run the missing screening episodes."""
        specs = [self._spec("screened", number) for number in range(len(game.screened), samples)]
        with closing(GameTree(self.make, self.spec.task)) as tree:
            game.screened += await self.rollouts(specs, tree)

    async def measure(self, game: MeasuredGame, samples: int, k: int) -> None:
        """Run the missing episodes and the ``k`` continuations of each prefix.

        Raises:
            Refusal: the environment is not deterministic.
            EnvError: the environment failed.
        """
        missing = range(len(game.episodes), samples)
        with closing(GameTree(self.make, self.spec.task)) as tree:
            specs = [replace(self.spec, sample=number) for number in missing]
            game.episodes += await self.rollouts(specs, tree)
            received = (chain.from_iterable(t.received for t in game.episodes[n].played_turns) for n in missing)
            for actions in set(map(tuple, received)):
                tree.check(actions)
            for key, (episode, turns) in prefixes(game.episodes[:samples]).items():
                values = game.values.setdefault(key, [])
                continuations = [self.continuation(episode, turns, number) for number in range(len(values), k)]
                for after in await self.rollouts(continuations, tree):
                    if keys(after)[: turns + 1] != keys(episode)[: turns + 1]:
                        raise RuntimeError(f"{game.key}: a continuation does not begin with its prefix")
                    values.append(score(after, self.reward))

    def continuation(self, episode: Episode, turns: int, number: int) -> EpisodeSpec:
        """Return the spec of continuation ``number`` of the episode's first ``turns`` turns.

        Continuation ``number`` of every prefix draws the same random numbers (common random
        numbers), so two continuations that act alike also end alike.
        """
        spec = self._spec("continued", number)
        return branched(spec, episode, turns) if turns else spec

    def _spec(self, group: str, number: int) -> EpisodeSpec:
        """Return the spec of an episode that draws other random numbers than the samples."""
        return replace(self.spec, sample=number, prompt=f"{self.spec.task.key} {group}")
