"""Who plays: anything that turns what was seen so far into one action."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from envs.types import Observation, TaskRef


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
    """A model policy returns the ids that it sampled and their log-probs; a text policy returns text alone.

    ``version`` is the training step whose weights gave the last of the ids, ``oldest`` that of the first where it differs.
    ``entropies`` and ``full_entropies`` are ``rollouts.sampling.Sample``'s, where they were asked for.
    ``out_of_context`` says that the prompt left no room for an action: the episode ends there.
    ``plan``: of a scripted policy, ``text`` and the actions that it has in mind after it; the prompt form makes an answer of them.
    """

    text: str
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    version: int = 0
    oldest: int | None = None
    out_of_context: bool = False
    entropies: tuple[float, ...] = ()
    full_entropies: tuple[float, ...] = ()
    plan: tuple[str, ...] = ()


class Policy(Protocol):
    @property
    def name(self) -> str: ...

    async def act(self, context: TurnContext) -> Action: ...
