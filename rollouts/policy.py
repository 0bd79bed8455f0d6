"""A policy: anything that turns the episode so far into one action."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from envs.types import Observation, TaskRef
from rollouts.sampling import Sample


@dataclass(frozen=True)
class TurnContext:
    """Everything that a policy may read.

    Args:
        messages, token_ids: the episode so far, or a window of it.
        observation: only scripted policies read its ``legal`` and ``expert``.
        prompt: name of the group that ``sample`` belongs to.
        prompt_length: tokens of ``token_ids`` that are the prompt.
        max_tokens: limit of the answer; None: the policy's own limit.
    """

    messages: Sequence[dict[str, str]]
    token_ids: Sequence[int]
    task: TaskRef
    observation: Observation
    turn: int
    sample: int
    step: int
    prompt: str
    prompt_length: int = 0
    max_tokens: int | None = None


@dataclass(frozen=True)
class Action:
    """A policy's answer.

    Args:
        text: the answer.
        sample: tokens that ``text`` was decoded from; None for text policies.
        out_of_context: the prompt left no room for an action, so the episode ends.
        plan: of a scripted policy, this action and the planned ones after it; the prompt form
            writes an answer with them.
    """

    text: str
    sample: Sample | None = None
    out_of_context: bool = False
    plan: tuple[str, ...] = ()

    @property
    def version(self) -> int:
        """The training step whose weights sampled the answer."""
        return self.sample.version if self.sample else 0


class Policy(Protocol):
    @property
    def name(self) -> str: ...

    async def act(self, context: TurnContext) -> Action: ...
