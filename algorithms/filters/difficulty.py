"""Drops groups that are too hard or too easy."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from turngrid.algorithms.pools import means
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import GROUPS, Card, Method, in_range, number


@dataclass(kw_only=True)
class Difficulty(Method):
    """Keep groups whose mean score lies between ``low`` and ``high``, both excluded."""

    low: float = number()
    high: float = number()

    when = "before"
    requires = frozenset({GROUPS})
    card = Card("keeps groups with a mean score between `low` and `high`", paper="ROLL", source="code")

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range(self.low, high=self.high)

    def __call__(self, turns: Turns, step: int) -> Tensor:
        mean = means(turns.score, turns.group)
        return ((mean > self.low) & (mean < self.high))[turns.group]
