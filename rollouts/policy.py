"""Who plays: anything that turns what was seen so far into one action."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from envs.types import Observation, TaskRef
from rollouts.sampling import Sample


@dataclass(frozen=True)
class TurnContext:
    """All that a policy may look at. Only scripted policies read ``observation.legal`` and ``observation.expert``.

    ``messages`` and ``token_ids`` are what it sees, all of the episode or a window of it, whose prompt has
    ``prompt_length`` ids. ``prompt`` names the group that ``sample`` is a member of. ``max_tokens``: of the answer; None: as the
    policy was told.
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
    """A model policy returns the ``sample`` that ``text`` was read from; a text policy returns text alone.

    ``out_of_context`` says that the prompt left no room for an action: the episode ends there.
    ``plan``: of a scripted policy, ``text`` and the actions that it has in mind after it; the prompt form makes an answer of them.
    """

    text: str
    sample: Sample | None = None
    out_of_context: bool = False
    plan: tuple[str, ...] = ()

    @property
    def version(self) -> int:
        """The training step whose weights gave it."""
        return self.sample.version if self.sample else 0


class Policy(Protocol):
    @property
    def name(self) -> str: ...

    async def act(self, context: TurnContext) -> Action: ...
