"""SPEAR's bonus for acting, while the agent learns to use its environment."""

from __future__ import annotations

from dataclasses import dataclass

from turngrid.rewards.declared import Card, Method, number
from turngrid.rewards.shaping.view import RewardView


@dataclass(kw_only=True)
class TurnBonus(Method):
    """``r_last += weight * decay * min(1, a_turn * turns)``. It pays for mere length."""

    weight: float = number()
    a_turn: float = number(0, 1)
    decay: float = number()

    card = Card(
        "adds `weight * decay * min(1, a_turn * turns)` to the last turn, for 200 steps",
        paper="2509.22601",
        source="code",
        ours="`weight` 0.1, a win being 1 (there 1 and 10)",
    )

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        turns = sum(not turn.summary for turn in view.episode.turns)
        return view.plus_last(self.weight * self.decay * min(1.0, self.a_turn * turns))
