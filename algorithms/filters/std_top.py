import math
from collections.abc import Sequence
from dataclasses import dataclass

from turngrid.algorithms.filters.by_std import ByStd
from turngrid.rewards.declared import Conflict, number


@dataclass(kw_only=True)
class StdTop(ByStd):
    """Keep the groups whose scores have the largest deviation (``smallest``: the smallest).

    Of equal ones, the first prompts are kept.
    """

    share: float = number(0, 1)
    smallest: bool

    conflicts = (
        Conflict(
            ("data.train_batch_size",),
            lambda top, groups: top.kept(groups) == 0,
            "int({method.share} x {0}) = 0 groups are kept",
            "a higher filter.std_top.share",
        ),
    )

    def rank(self, deviation: float) -> float:
        return -deviation if self.smallest else deviation

    def count(self, ranked: Sequence[float]) -> int:
        return max(1, self.kept(len(ranked)))

    def kept(self, groups: int) -> int:
        """Return the number of groups to keep."""
        return math.floor(self.share * groups + 1e-9)
