from collections.abc import Sequence

import torch
from torch import Tensor

from turngrid.algorithms.pools import deviations
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import GROUPS, WHOLE_STEP, Method

DIGITS = 9  # tolerance: deviations that differ by less are equal, whatever the order of summation


class ByStd(Method):
    """Base of filters that keep the groups whose scores have the largest deviations."""

    when = "before"
    requires = frozenset({GROUPS, WHOLE_STEP})

    def __call__(self, turns: Turns, step: int) -> Tensor:
        spread = deviations(turns.score, turns.group, size=turns.score_size)
        prompts = dict(zip(turns.group.tolist(), turns.episodes, strict=True))
        ranked = sorted(prompts, key=lambda group: (-round(self.rank(spread[group].item()), DIGITS), prompts[group]))
        keep = torch.zeros(len(spread), dtype=torch.bool)
        keep[ranked[: self.count(spread[ranked].tolist())]] = True
        return keep[turns.group]

    def rank(self, deviation: float) -> float:
        """Return the number by which groups are sorted, the highest first; ties: first prompts."""
        return deviation

    def count(self, ranked: Sequence[float]) -> int:
        """Return how many of the first groups to keep, given their sorted deviations."""
        raise NotImplementedError
