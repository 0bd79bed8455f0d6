"""Answers of the generator. This module imports nothing heavy, since every process may import
it.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class GenResult:
    """Tokens of one answer.

    Attributes:
        log_probs: in nats at the request's temperature (at 0: of temperature 1), before top-p and
            top-k.
        stop_reason: "eos" or "length"; from a server also "too_long" or "aborted", without tokens.
        entropies: ``batch.top_entropies``, empty if not requested.
        full_entropies: ``batch.full_entropies``, empty if not requested.
        step: training step of the server's weights; None before the first update.
    """

    token_ids: list[int]
    log_probs: list[float]
    stop_reason: str
    entropies: Sequence[float] = ()
    full_entropies: Sequence[float] = ()
    step: int | None = None
