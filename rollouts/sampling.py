"""Requests to a language model for one turn's tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


def request_id(step: int, group: str, sample: int) -> str:
    """Return the id that all requests of an episode share."""
    return f"{step}/{group}/{sample}"


@dataclass(frozen=True)
class SampleRequest:
    """One turn to be sampled.

    Args:
        request_id: the same for all turns of an episode, so that a server computes only new tokens.
        temperature: 0 is greedy.
        top_p, top_k: 1 and <= 0 keep the full distribution.
        seed: not negative; decides the answer.
        entropies, full_entropies: ask for these too (``Sample``).
        weights: file of earlier weights of the run, which only our server reads; "": the newest.
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
    weights: str = ""


@dataclass(frozen=True)
class Sample:
    """A sampled answer.

    Attributes:
        logprobs: the behaviour policy's log-probabilities, in nats at the request's temperature (at
            0: of temperature 1), before top-p and top-k.
        version: training step whose weights sampled the last token.
        oldest: that of the first token, if the weights changed while sampling.
        entropies: for each token -sum p log p over the ten likeliest, divided by the logarithm of
            the vocabulary's size; empty unless requested.
        full_entropies: entropy (nats) of the whole distribution at the request's temperature (1 if
            that is 0), before top-p and top-k; empty unless requested.
        stop_reason: "eos" or "length"; "aborted" without tokens; "" if not known.
    """

    token_ids: Sequence[int]
    logprobs: Sequence[float]
    version: int = 0
    oldest: int | None = None
    entropies: Sequence[float] = ()
    full_entropies: Sequence[float] = ()
    stop_reason: str = ""


class RequestTooLong(ValueError):
    """The model's context has no room for prompt and answer."""


class SampleLost(RuntimeError):
    """The server lost the request, for example by dying; another server may answer it."""


class Sampler(Protocol):
    async def sample(self, request: SampleRequest) -> Sample:
        """Sample one turn's tokens.

        Raises:
            RequestTooLong: the request exceeds the context.
            SampleLost: the sample did not arrive.
        """


@dataclass(frozen=True)
class SamplingParams:
    """Sampling settings. ``temperature=0`` is greedy; ``top_k=-1``, ``top_p=1`` keep all tokens."""

    temperature: float
    max_action_tokens: int
    top_p: float = 1.0
    top_k: int = -1
