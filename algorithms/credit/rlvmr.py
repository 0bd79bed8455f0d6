"""Credit for the kind of thought that a turn began with, by rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.pools import compared
from algorithms.slots import in_range
from algorithms.turns import Turns
from rewards.declared import WHOLE_STEP, Requires

TAGS = ("planning", "explore", "reflection", "monitor")


@dataclass
class Rlvmr:
    """``A_t = alpha A + (1 - alpha) z`` (RLVMR, arXiv 2507.22844, by a note), A the estimator's advantage of the episode, z the turn's rule
    reward less the mean of the batch's turns with the same tag, over their deviation; 0 for a turn without a tag.

    Rules, 1 each: planning where the episode was won; explore where the action led to a state that the episode had not seen;
    reflection where the action was understood and the one before was not. Monitor has none. Sizes do not matter to z. That a
    state is new if the turn ended in it, and that failing means not being understood, is our reading.

    Attributes:
        alpha: share of the estimator's advantage.
    """

    alpha: float = 0.5

    labels: ClassVar[tuple[str, ...]] = TAGS
    grains: ClassVar[frozenset[str]] = frozenset({"episode"})
    requires: ClassVar[Requires] = frozenset({WHOLE_STEP})

    def __post_init__(self) -> None:
        in_range(0, 1, alpha=self.alpha)

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        assert turns.label is not None
        tagged = turns.mask & (turns.label > 0)
        terms = torch.zeros(turns.mask.shape, dtype=torch.float64)
        terms[tagged] = compared(rule_rewards(turns)[tagged], turns.label[tagged], std=True)
        return self.alpha * advantages + (1 - self.alpha) * terms


def rule_rewards(turns: Turns) -> Tensor:
    """(E, K) float64: 1 where a turn did what its tag says."""
    assert turns.label is not None
    failed = torch.nn.functional.pad(turns.mask & ~turns.valid, (1, 0))[:, :-1]
    won = turns.won.unsqueeze(1).expand(turns.mask.shape)
    earned = (won, _new(turns), turns.valid & failed, torch.zeros_like(turns.mask))
    found = torch.stack([(turns.label == number) & rule for number, rule in enumerate(earned, start=1)])
    return found.any(dim=0).double()


def _new(turns: Turns) -> Tensor:
    """(E, K) bool: the state after the turn is none that the episode had been in. Turn by turn, to hold no (E, K, K)."""
    columns = [
        (turns.state[:, : turn + 1] != turns.after[:, turn : turn + 1]).all(dim=1)
        for turn in range(turns.mask.shape[1])
    ]
    return torch.stack(columns, dim=1) if columns else turns.mask
