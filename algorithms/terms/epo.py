"""EPO: entropy of the policy, held near its average over the run so far."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from algorithms.slots import LossView, Needs, in_range
from algorithms.turns import Turns


@dataclass
class Epo:
    """``- weight * (L_H - beta_k * L_smooth)`` (EPO, arXiv 2509.22576 v2, equations 6 to 9), in its paper's form, with gradient.

    Both are means over episodes of means over turns of means over tokens: ``L_H`` of the entropy H, ``L_smooth`` of
    ``alpha * P`` with ``P = max(0, low * Hbar - H) + max(0, H - high * Hbar)``; ``Hbar`` is the mean over all earlier steps of a
    step's mean entropy a token; at the first step ``L_smooth`` is 0. ``beta_k = 1 + exp(-decay * k / floor(K / 2))`` with k from 0.

    Attributes:
        weight: lambda of the paper.
        low, high: bounds of the entropy, as multiples of its history.
        alpha: weight of leaving them.
        decay: of beta, g in the paper; its value was not found.
        steps: K; None: as many as the run has.
        gradient: whether the penalty has one; in the released code it is a constant, so that only ``L_H`` is learned from.
    """

    weight: float = 0.001
    low: float = 0.0
    high: float = 2.0
    alpha: float = 0.1
    decay: float = 1.0
    steps: int | None = None
    gradient: bool = True

    needs: ClassVar[Needs] = frozenset({"entropy"})

    def __post_init__(self) -> None:
        in_range(weight=self.weight)
        in_range(0, low=self.low, high=self.high, alpha=self.alpha, decay=self.decay)
        in_range(2, steps=2 if self.steps is None else self.steps)

    _total: float = field(default=0.0, init=False, repr=False)
    _count: int = field(default=0, init=False, repr=False)

    def prepare(
        self, turns: Turns, keep: Tensor, entropy: Tensor | None, step: int, steps: int
    ) -> tuple[dict[str, Tensor], dict[str, float]]:
        assert entropy is not None
        history = self._total / self._count if self._count else None
        half = max(1, (self.steps or steps) // 2)
        coefficients = {
            "weight": self.weight,
            "beta": 1 + math.exp(-self.decay * (step - 1) / half),
            "alpha": 0.0 if history is None else self.alpha,
            "low": self.low * (history or 0.0),
            "high": self.high * (history or 0.0),
        }
        self._remember(turns, entropy)
        return {"weight": turns.spread(_weights(turns, keep).float())}, coefficients

    def _remember(self, turns: Turns, entropy: Tensor) -> None:
        if count := turns.tokens.sum().item():
            self._total += (turns.mean(entropy) * turns.tokens).sum().item() / count
            self._count += 1

    def loss(self, view: LossView, coefficients: Mapping[str, float]) -> tuple[Tensor, dict[str, Tensor]]:
        assert view.entropy is not None
        c, entropy, weight = coefficients, view.entropy, view.data["weight"] * view.scale
        outside = (c["low"] - entropy).clamp(min=0) + (entropy - c["high"]).clamp(min=0)
        outside = outside if self.gradient else outside.detach()
        mean, smooth = (weight * entropy).sum(), (weight * c["alpha"] * outside).sum()
        return -c["weight"] * (mean - c["beta"] * smooth), {"entropy": mean.detach(), "smooth": smooth.detach()}

    def state(self) -> dict[str, Any]:
        return {"total": self._total, "count": self._count}

    def load(self, state: Mapping[str, Any]) -> None:
        self._total, self._count = float(state["total"]), int(state["count"])


def _weights(turns: Turns, keep: Tensor) -> Tensor:
    """(E, K): what one token of a turn weighs in the mean over episodes, turns and tokens; they sum to 1 over all tokens."""
    kept = keep.sum().clamp(min=1)
    count = turns.mask.sum(dim=1, keepdim=True).clamp(min=1)
    return (turns.mask & keep.unsqueeze(1)).double() / (kept * count * turns.tokens.clamp(min=1))
