"""Ways in which the policy that samples differs from the one that is trained."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from benchmarks.mismatch.game import VOCABULARY, Weights, log_probs
from turngrid.verl_plugin.servers.transformers_server.batch import Rules, restrict

FORMATS = {"bf16": torch.bfloat16, "fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}
HEALTHY = "healthy"


@dataclass(frozen=True)
class Sampler:
    """Distributions that a sampler draws from and reports, (R, CONTEXTS, VOCABULARY) each.

    Attributes:
        noise: standard deviation of noise in each reported log-prob, in nats.
    """

    probabilities: Tensor
    reported: Tensor
    noise: float = 0.0


Make = Callable[[Sequence[Weights]], Sampler]  # from the trainer's weights after each update, the newest last


@dataclass(frozen=True)
class Difference:
    """A difference between sampler and trainer: in words, and the sampler that has it."""

    does: str
    make: Make


def exact(weights: Weights, rounded: Callable[[Tensor], Tensor] = lambda numbers: numbers) -> Sampler:
    """Return a sampler that reports what it draws from."""
    tables = log_probs(weights, rounded)
    return Sampler(tables.exp(), tables)


def in_format(name: str) -> Difference:
    def rounded(numbers: Tensor) -> Tensor:
        return numbers.to(FORMATS[name]).to(numbers.dtype)

    return Difference(f"weights, hidden states, logits in {name}", lambda history: exact(history[-1], rounded))


def quantised(matrix: Tensor, bits: int) -> Tensor:
    """Round to whole multiples of each row's largest size / (2^(bits - 1) - 1)."""
    unit = matrix.abs().amax(dim=-1, keepdim=True) / (2 ** (bits - 1) - 1)
    return (matrix / unit).round() * unit


def in_bits(bits: int) -> Difference:
    def make(history: Sequence[Weights]) -> Sampler:
        first, last = history[-1]
        return exact((quantised(first, bits), quantised(last, bits)))

    return Difference(f"weights in {bits} bits, one scale a row", make)


def stale(updates: int) -> Difference:
    """Weights before so many updates; the first ones, if there were fewer."""
    return Difference(f"weights {updates} updates old", lambda history: exact(history[-1 - updates :][0]))


def nucleus(share: float, hidden: bool) -> Difference:
    """Top-p; log-probs are those after the cut, or if ``hidden`` those before it."""

    def make(history: Sequence[Weights]) -> Sampler:
        tables = log_probs(history[-1])
        kept = restrict(tables.exp().view(-1, VOCABULARY), Rules([1.0], [share], [0])).view_as(tables)
        kept = kept / kept.sum(dim=-1, keepdim=True)
        return Sampler(kept, tables if hidden else kept.log())

    return Difference(f"top-p {share}, log-probs {'before' if hidden else 'after'} the cut", make)


def noisy(nats: float) -> Difference:
    return Difference(
        f"noise of {nats} nats in reported log-probs", lambda history: replace(exact(history[-1]), noise=nats)
    )


SHARES = (0.99, 0.95, 0.9)
SAMPLERS: dict[str, Difference] = {
    HEALTHY: Difference("nothing differs", lambda history: exact(history[-1])),
    **{name: in_format(name) for name in FORMATS},
    **{f"int{bits}": in_bits(bits) for bits in (8, 6, 4)},
    **{f"stale_{updates}": stale(updates) for updates in (1, 4, 8)},
    **{f"top_p_{share}": nucleus(share, hidden=False) for share in SHARES},
    **{f"hidden_top_p_{share}": nucleus(share, hidden=True) for share in SHARES},
    **{f"noise_{nats}": noisy(nats) for nats in (0.01, 0.05, 0.2)},
}
