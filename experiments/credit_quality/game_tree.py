"""A game that is gone through again and again: what an action led to is remembered, so that no step is played twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from envs.text_env import TextEnv
from envs.types import EnvError, Observation, StepResult, TaskRef
from records.process.exit_codes import Refusal


class NotReplayed(Refusal):
    """The same actions led elsewhere, so that the value of a state cannot be measured by going back to it."""


@dataclass(eq=False)
class Node:
    """Where ``actions`` lead; ``result`` is None at the start. ``saved``: the environment's own copy of it."""

    actions: tuple[str, ...]
    observation: Observation
    result: StepResult | None = None
    saved: Any = None
    children: dict[str, Node] = field(default_factory=dict)
    graded: StepResult | None = None


class GameTree:
    """All that was ever played of one game, in this process.

    Args:
        make: gives an environment for this game.
    """

    def __init__(self, make: Callable[[], TextEnv], task: TaskRef) -> None:
        self._make, self.task, self._env = make, task, make()
        self.steps = 0  # that the environment took
        self.root = Node((), self._env.reset(task, task.seed))
        self._arrive(self.root)

    async def open(self) -> ReplaySession:
        return ReplaySession(self)

    def close(self) -> None:
        self._env.close()

    def child(self, node: Node, action: str) -> Node:
        """Raises: EnvError: the environment failed; NotReplayed."""
        if action not in node.children:
            self._go_to(node)
            self.steps += 1
            result = self._env.step(action)
            node.children[action] = child = Node((*node.actions, action), result.observation, result)
            self._arrive(child)
        return node.children[action]

    def graded(self, node: Node) -> StepResult:
        """What the environment says where an episode is cut off."""
        if node.graded is None:
            self._go_to(node)
            node.graded, self._at = self._env.finish(), None
        return node.graded

    def _arrive(self, node: Node) -> None:
        result = node.result
        over = result and (result.won or result.lost or result.terminated or result.truncated)
        self._at: Node | None = None if over else node
        node.saved = None if over else self._env.saved()

    def _go_to(self, node: Node) -> None:
        if self._at is node:
            return
        if node.saved is not None:
            self._env.restore(node.saved)
        else:
            self._play_again(self._env, node)
        self._at = node

    def check(self, actions: Sequence[str]) -> None:
        """Play the actions on a fresh environment and compare. Raises: NotReplayed."""
        node = self.root
        for action in actions:
            node = self.child(node, action)
        env = self._make()
        try:
            self._play_again(env, node)
        finally:
            env.close()

    def _play_again(self, env: TextEnv, node: Node) -> None:
        at = self.root
        if env.reset(self.task, self.task.seed) != at.observation:
            raise NotReplayed(f"{self.task.key} begins otherwise when it is reset again: {REASON}")
        for number, action in enumerate(node.actions, 1):
            at = at.children[action]
            self.steps += 1
            if env.step(action) != at.result:
                raise NotReplayed(
                    f"{self.task.key}: {action!r}, action {number}, is answered otherwise when the same actions are played again: {REASON}"
                )


REASON = "the value of a state is measured by going back to it, so the environment must replay exactly"


@dataclass
class ReplaySession:
    """``rollouts.spec.Session`` over a tree."""

    tree: GameTree
    node: Node = field(init=False)

    def __post_init__(self) -> None:
        self.node = self.tree.root

    async def reset(self, task: TaskRef, seed: int) -> Observation:
        if (task, seed) != (self.tree.task, self.tree.task.seed):
            raise EnvError(f"this is the game {self.tree.task.key}, not {task.key}")
        self.node = self.tree.root
        return self.node.observation

    async def step(self, action: str) -> StepResult:
        self.node = self.tree.child(self.node, action)
        assert self.node.result is not None
        return replace(self.node.result, info=dict(self.node.result.info))

    async def finish(self) -> StepResult:
        return self.tree.graded(self.node)

    async def close(self) -> None: ...
