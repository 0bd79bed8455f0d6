"""AEPO's advantages: turns at which the policy was uncertain count more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from algorithms import lazy_torch as torch
from algorithms.pools import compared
from algorithms.slots import Needs, in_range
from algorithms.turns import Turns

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class Aepo:
    """``A_t *= 1 + weight * z(H_t)`` (AEPO, arXiv 2510.14545, by notes), ``z = (H - mean) / (std + 1e-6)`` of the turn's mean token
    entropy among the turns of the batch; 1 where all are equal. The paper's other half, a gradient for clipped tokens of high entropy,
    is not built.

    Attributes:
        weight: its value was not found, nor whether H is a token's or a turn's, nor the pool.
    """

    weight: float = 0.2

    needs: ClassVar[Needs] = frozenset({"entropy"})
    grains: ClassVar[frozenset[str]] = frozenset({"token", "turn", "episode"})
    compares: ClassVar[bool] = False

    def __post_init__(self) -> None:
        in_range(weight=self.weight)

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        assert turns.entropy is not None
        episode, turn = turns.flat()
        risen = compared(turns.entropy[episode, turn], torch.zeros_like(episode), std=True)
        found = advantages.clone()
        found[episode, turn] *= 1 + self.weight * risen
        return found
