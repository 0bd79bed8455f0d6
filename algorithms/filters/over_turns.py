"""Mutes episodes that were cut off."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import Card, Conflict, Method


@dataclass(kw_only=True)
class OverTurns(Method):
    """Mute an episode that ran out of turns or of context."""

    when = "after"
    conflicts = (
        Conflict(
            ("turn_reward.name",),
            lambda _, reward: reward not in ("sparse", "binary"),
            "episodes that were cut off are left out, with what the reward paid them",
            "reward=sparse",
            warns=True,
        ),
    )
    card = Card(
        "mutes episodes that ran out of turns or context",
        paper="2509.07969",
        source="abstract",
        ours="they stay in the baseline, and the loss is a mean over what is left",
    )

    def __call__(self, turns: Turns, step: int) -> Tensor:
        return ~turns.cut_off
