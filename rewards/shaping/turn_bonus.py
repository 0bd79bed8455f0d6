"""SPEAR's bonus for acting, while the agent learns to use its environment."""

from __future__ import annotations

from dataclasses import dataclass

from envs.utils.ranges import in_range
from rewards.shaping.view import RewardView


@dataclass
class TurnBonus:
    """``r_last += weight * decay * min(1, a_turn * turns)`` (SPEAR, arXiv 2509.22601, as released). It pays for mere length.

    Attributes:
        weight: in units of the trained reward; 1 beside 10 for a win as published.
        a_turn: share of ``weight`` that a turn earns, up to all of it.
        decay: a schedule, ``{cosine_down: 200}`` as published for ALFWorld, 100 elsewhere.
    """

    weight: float = 0.1
    a_turn: float = 0.1
    decay: float = 1.0

    def __post_init__(self) -> None:
        in_range(weight=self.weight, decay=self.decay)
        in_range(0, 1, a_turn=self.a_turn)

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        played = sum(not turn.summary for turn in view.episode.turns)
        return view.plus_last(self.weight * self.decay * min(1.0, self.a_turn * played))
