import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from turngrid.algorithms.slots import LossView
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import Method, number


@dataclass(kw_only=True)
class Epo(Method):
    """Keep entropy near its average: ``- weight * (L_H - beta_k * L_smooth)``, with gradient.

    Both are means over episodes of means over turns of means over tokens: ``L_H`` of the entropy H,
    ``L_smooth`` of ``alpha * P`` with ``P = max(0, low * Hbar - H) + max(0, H - high * Hbar)``.
    ``Hbar`` is the mean over all earlier steps of a step's mean entropy a token. At the first step
    ``L_smooth`` is 0. ``beta_k = 1 + exp(-decay * k / floor(K / 2))`` with k from 0 and K =
    ``steps``. Without ``gradient`` the penalty is a constant, so only ``L_H`` has a gradient.
    """

    weight: float = number()
    low: float = number(0)
    high: float = number(0)
    alpha: float = number(0)
    decay: float = number(0)
    steps: int | None = number(2)
    gradient: bool

    needs = frozenset({"entropy"})
    of_length = ("steps",)

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
    """Return a token's weight in the mean over episodes, turns and tokens; (E, K)."""
    kept = turns.mask & keep
    episodes, count = kept.any(dim=1).sum().clamp(min=1), kept.sum(dim=1, keepdim=True).clamp(min=1)
    return kept.double() / (episodes * count * turns.tokens.clamp(min=1))
