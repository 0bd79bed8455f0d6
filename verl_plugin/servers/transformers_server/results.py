"""What the generator answers; imports nothing heavy, so that any process may know it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class GenResult:
    """``log_probs`` in nats at the request's temperature (1 where it is 0), of the distribution before top-p and top-k.

    ``entropies`` are ``sampling.top_entropies`` and ``full_entropies`` those of its name, none where they were not asked for.
    ``stop_reason`` is "eos" (the last token ends the turn) or "length"; from a server also "too_long" or "aborted", without
    tokens. ``step`` is the training step of the weights that a server sampled with, None where none were sent to it.
    """

    token_ids: list[int]
    log_probs: list[float]
    stop_reason: str
    entropies: Sequence[float] = ()
    full_entropies: Sequence[float] = ()
    step: int | None = None
