"""EMPG: turns that the policy was sure of count more, and so does leading to a state where it is sure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.credit.aem import scaled
from algorithms.slots import Needs, in_range
from algorithms.turns import Turns
from rewards.declared import WHOLE_STEP, Requires

EPSILON = 1e-8  # beside the range of the entropies


@dataclass
class Empg:
    """``A_t exp(-k H~_t) / mean exp(-k H~) + bonus exp(-k' H~_{t+1})`` (EMPG, arXiv 2509.09265), the last turn without the second
    term; ``H~`` is the turn's mean token entropy, scaled to [0, 1] over the batch.

    Attributes:
        sharpness: k. sharpness_next: k'. The paper tries several; 1 is assumed.
        bonus: zeta, of leading to a turn of low entropy; assumed, too.
        centred: take off the mean over the batch's turns afterwards, as the paper does.
    """

    sharpness: float = 1.0
    sharpness_next: float = 1.0
    bonus: float = 0.1
    centred: bool = False

    needs: ClassVar[Needs] = frozenset({"entropy"})
    grains: ClassVar[frozenset[str]] = frozenset({"turn", "episode"})
    requires: ClassVar[Requires] = frozenset({WHOLE_STEP})

    def __post_init__(self) -> None:
        in_range(0, sharpness=self.sharpness, sharpness_next=self.sharpness_next)
        in_range(bonus=self.bonus)

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        assert turns.entropy is not None
        at = turns.flat()
        entropy = torch.zeros_like(turns.entropy)
        entropy[at] = scaled(turns.entropy[at], torch.zeros_like(at[0]), EPSILON)
        weight = torch.exp(-self.sharpness * entropy)
        following = turns.following(torch.exp(-self.sharpness_next * entropy))
        found = advantages * weight / weight[at].mean() + self.bonus * following
        return found - found[at].mean() if self.centred else found
