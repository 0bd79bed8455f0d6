from collections.abc import Sequence
from dataclasses import dataclass

from turngrid.algorithms.filters.by_std import DIGITS, ByStd
from turngrid.rewards.declared import number


@dataclass(kw_only=True)
class StdMinP(ByStd):
    """Keep groups whose deviation is above 0 and at least ``share`` of the largest one."""

    share: float = number(1e-9, 1)

    def count(self, ranked: Sequence[float]) -> int:
        return sum(deviation > 0 and deviation >= self.share * ranked[0] - 10**-DIGITS for deviation in ranked)
