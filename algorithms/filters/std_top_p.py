from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from turngrid.algorithms.filters.by_std import DIGITS, ByStd
from turngrid.rewards.declared import number


@dataclass(kw_only=True)
class StdTopP(ByStd):
    """Keep groups, by falling deviation, until these sum to ``share * total - epsilon``.

    With ``share`` 1, all groups of unequal scores are kept.
    """

    share: float = number(1e-9, 1)
    epsilon: float = number(0)

    def count(self, ranked: Sequence[float]) -> int:
        uneven = [deviation for deviation in ranked if deviation > 0]
        wanted = self.share * sum(uneven) - self.epsilon
        if self.share == 1:
            return len(uneven)
        reached = [*accumulate(uneven, initial=0.0)]
        return next(count for count, total in enumerate(reached) if total >= wanted - 10**-DIGITS)
