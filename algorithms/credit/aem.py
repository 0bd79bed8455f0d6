"""AEM: turns that the policy was sure of count more, those that it was unsure of less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.pools import bounds, means, without_rounding
from algorithms.slots import Needs, in_range
from algorithms.turns import Turns
from rewards.declared import WHOLE_STEP, Requires

SCOPES = ("group", "batch", "episode")


@dataclass
class Aem:
    """``A_t *= exp(-sharpness * H~_t) / mean of that`` (AEM, arXiv 2605.00425), ``H~ = (H - min) / (max - min)`` of the turn's mean
    token entropy among the turns of a pool; 1 where all are equal. Signs never change.

    Attributes:
        sharpness: lambda of the paper; its value was not found.
        scope: the pool: the turns of a ``group`` (assumed), of the ``batch``, or of an ``episode``.

    Raises:
        ValueError: ``scope`` is something else.
    """

    sharpness: float = 1.0
    scope: str = "group"

    needs: ClassVar[Needs] = frozenset({"entropy"})
    grains: ClassVar[frozenset[str]] = frozenset({"token", "turn", "episode"})

    def __post_init__(self) -> None:
        in_range(0, sharpness=self.sharpness)
        if self.scope not in SCOPES:
            raise ValueError(f"scope={self.scope} must be one of: {', '.join(SCOPES)}")

    @property
    def requires(self) -> Requires:
        return frozenset({WHOLE_STEP} if self.scope == "batch" else ())

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        assert turns.entropy is not None
        episode, turn = turns.flat()
        pool = {"group": turns.group[episode], "batch": torch.zeros_like(episode), "episode": episode}[self.scope]
        weight = torch.exp(-self.sharpness * scaled(turns.entropy[episode, turn], pool))
        found = advantages.clone()
        found[episode, turn] *= weight / means(weight, pool)[pool]
        return found


def scaled(values: Tensor, pool: Tensor, epsilon: float = 0.0) -> Tensor:
    """(n,): from 0 for the least of a pool to 1 for the greatest; 0 where all are equal."""
    low, high = (bound[pool] for bound in bounds(values, pool))
    width = without_rounding(high - low, pool, values.abs())
    return torch.where(width > 0, (values - low) / (width + epsilon).where(width > 0, 1.0), 0.0)
