"""Groups that are too hard or too easy are not learned from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from algorithms.pools import means
from algorithms.slots import in_range
from algorithms.turns import Turns
from rewards.declared import GROUPS, Requires


@dataclass
class Difficulty:
    """Keep groups whose mean score lies between ``low`` and ``high``, both excluded (as ROLL does)."""

    low: float = 0.1
    high: float = 0.95

    when: ClassVar[Literal["before", "after"]] = "before"
    requires: ClassVar[Requires] = frozenset({GROUPS})

    def __post_init__(self) -> None:
        in_range(low=self.low)
        in_range(self.low, high=self.high)

    def __call__(self, turns: Turns, step: int) -> Tensor:
        mean = means(turns.score, turns.group)
        return ((mean > self.low) & (mean < self.high))[turns.group]
