"""Episodes that were cut off are not learned from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from algorithms.turns import Turns
from rewards.declared import Conflict


@dataclass
class OverTurns:
    """Mute an episode that ran out of turns or of context (arXiv 2509.07969, abstract).

    It stays in its group's mean and deviation, and the loss is a mean over what is left (both assumed).
    """

    when: ClassVar[Literal["before", "after"]] = "after"
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict(
            ("turn_reward.name",),
            lambda _, reward: reward not in ("sparse", "binary"),
            "episodes that were cut off are left out, with what the reward paid them",
            "reward=sparse",
            warns=True,
        ),
    )

    def __call__(self, turns: Turns, step: int) -> Tensor:
        return ~turns.cut_off
