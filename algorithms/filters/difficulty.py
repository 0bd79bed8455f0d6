from dataclasses import dataclass

from torch import Tensor

from turngrid.algorithms.pools import means
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import GROUPS, Method, in_range, number


@dataclass(kw_only=True)
class Difficulty(Method):
    """Keep groups whose mean score lies between ``low`` and ``high``, both excluded."""

    low: float = number()
    high: float = number()

    when = "before"
    requires = frozenset({GROUPS})

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range("high", self.high, self.low)

    def __call__(self, turns: Turns, step: int) -> Tensor:
        mean = means(turns.score, turns.group)
        return ((mean > self.low) & (mean < self.high))[turns.group]
