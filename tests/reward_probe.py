"""A credit method that changes nothing and fails the run where rewards did not arrive at their
turns."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from turngrid.algorithms.turns import Turns

PRICE, BONUS, DECAY = 0.25, 0.5, "{steps: {1: 1, 2: 0.5, 3: 0}}"
SHAPING = (
    "shaping=[invalid_action,turn_bonus]",
    f"shaping.invalid_action.coefficient={PRICE}",
    f"shaping.turn_bonus.weight={BONUS}",
    f"shaping.turn_bonus.decay={DECAY}",
    "+credit.probe.target=reward_probe:RewardProbe",
    f"+credit.probe.decay={DECAY}",  # in the trainer, which must have the same step
)


@dataclass
class RewardProbe:
    """Rebuilds the trained reward of each turn from the named ones."""

    decay: float = 1.0

    reads: ClassVar[frozenset[str]] = frozenset({"outcome", "valid", "sparse"})
    grains: ClassVar[frozenset[str]] = frozenset({"token", "turn", "episode"})

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        named = turns.named
        assert torch.equal(named["valid"], turns.valid.double())
        assert torch.equal(named["outcome"].sum(dim=1), (turns.outcome == 0).double())
        assert torch.equal(named["sparse"], named["outcome"])
        added = turns.reward - named["outcome"] + PRICE * (turns.mask & ~turns.valid)
        wanted = torch.zeros_like(added)
        wanted[torch.arange(len(added)), turns.last] = (
            self.decay * BONUS * (0.1 * turns.mask.sum(dim=1).double()).clamp(max=1)
        )
        torch.testing.assert_close(added, wanted.double(), atol=1e-6, rtol=0)
        return advantages
