"""AEPO's advantages: turns at which the policy was uncertain count more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.pools import compared
from algorithms.slots import Needs, in_range
from algorithms.turns import Turns
from rewards.declared import WHOLE_STEP, Requires


@dataclass
class Aepo:
    """``A_t *= 1 + weight * z(H_t)`` (AEPO, arXiv 2510.14545, by notes), ``z = (H - mean) / (std + 1e-6)`` of the turn's mean token
    entropy among the turns of the batch; 1 where all are equal. In the released code H is a token's, and z is taken over a pass of the
    update, under the policy of that moment.

    Attributes:
        weight: the released code's.
    """

    weight: float = 0.2

    needs: ClassVar[Needs] = frozenset({"entropy"})
    grains: ClassVar[frozenset[str]] = frozenset({"token", "turn", "episode"})
    requires: ClassVar[Requires] = frozenset({WHOLE_STEP})

    def __post_init__(self) -> None:
        in_range(weight=self.weight)

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        assert turns.entropy is not None
        episode, turn = turns.flat()
        risen = compared(turns.entropy[episode, turn], torch.zeros_like(episode), std=True)
        found = advantages.clone()
        found[episode, turn] *= 1 + self.weight * risen
        return found
