from torch import Tensor

from turngrid.algorithms.turns import OUTCOMES, Turns
from turngrid.rewards.declared import Method


class DrBot(Method):
    """Mute an episode that ran out of context, or with an unparsed or garbled turn."""

    when = "after"

    def __call__(self, turns: Turns, step: int) -> Tensor:
        assert turns.garbled is not None
        good = (turns.parsed & ~turns.garbled) | ~turns.mask
        return good.all(dim=1) & (turns.outcome != OUTCOMES.index("out_of_context"))
