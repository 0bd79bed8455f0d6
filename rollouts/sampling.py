"""Asking a language model for one turn's tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


def request_id(step: int, group: str, sample: int) -> str:
    """Of all turns of an episode."""
    return f"{step}/{group}/{sample}"


@dataclass(frozen=True)
class SampleRequest:
    """One turn to be sampled. ``temperature=0`` is greedy; ``top_p=1`` and ``top_k<=0`` keep the full distribution.

    ``request_id`` stays the same over an episode's turns, so that only what is new of its prompt is computed. ``seed`` (not
    negative) is all the randomness of the answer. ``entropies``, ``full_entropies``: those of its tokens are asked for too.
    """

    request_id: str
    prompt_ids: Sequence[int]
    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    seed: int = 0
    entropies: bool = False
    full_entropies: bool = False


@dataclass(frozen=True)
class Sample:
    """Tokens as sampled and the log-probabilities (nats) that the behaviour policy gave them; ``version`` is the
    training step whose weights answered, and ``oldest`` that of the answer's first token, where weights were exchanged while
    it was sampled. ``entropies``: for each token -sum p log p over the ten likeliest, as a share of the logarithm of the
    vocabulary's size; ``full_entropies``: nats, of the whole distribution at the request's temperature (1 where it is 0),
    whatever top-p and top-k leave out. Both are empty where nobody asked for them."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    version: int = 0
    oldest: int | None = None
    entropies: tuple[float, ...] = ()
    full_entropies: tuple[float, ...] = ()


class RequestTooLong(ValueError):
    """Prompt and answer do not fit into the model's context."""


class SampleLost(RuntimeError):
    """The server lost the request, by dying for instance: asked again, another may answer."""


class Sampler(Protocol):
    async def sample(self, request: SampleRequest) -> Sample:
        """Raises: RequestTooLong, SampleLost."""
        ...


@dataclass(frozen=True)
class SamplingParams:
    """How a model plays. ``temperature=0`` is greedy; ``top_k=-1`` and ``top_p=1`` keep the full distribution."""

    temperature: float
    top_p: float = 1.0
    top_k: int = -1
    max_action_tokens: int = 32
