from torch import Tensor

from turngrid.algorithms.pools import deviations
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import GROUPS, Method


class ZeroStd(Method):
    """Drop groups of equal scores. Their advantages are 0; the loss gets a smaller divisor."""

    when = "before"
    requires = frozenset({GROUPS})

    def __call__(self, turns: Turns, step: int) -> Tensor:
        return ~equal_scores(turns.score, turns.score_size, turns.group)[turns.group]


def equal_scores(scores: Tensor, sizes: Tensor, group: Tensor) -> Tensor:
    """Mark groups of equal scores; (E,) each -> (groups,) bool (``pools.without_rounding``)."""
    return deviations(scores, group, size=sizes) == 0
