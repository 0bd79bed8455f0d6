"""Keeps only the groups whose scores differ most."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.pools import deviations
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import GROUPS, WHOLE_STEP, Card, Conflict, Method, number

DIGITS = 9  # tolerance: deviations that differ by less are equal, whatever the order of summation


@dataclass(kw_only=True)
class StdTop(Method):
    """Keep the groups whose scores have the largest deviation; of equal ones, the first prompts."""

    share: float = number(0, 1)
    smallest: bool

    when = "before"
    requires = frozenset({GROUPS, WHOLE_STEP})
    conflicts = (
        Conflict(
            ("data.train_batch_size",),
            lambda top, groups: top.kept(groups) == 0,
            "int({method.share} x {0}) = 0 groups are kept",
            "a higher filter.std_top.share",
        ),
    )
    card = Card(
        "keeps the `int(share * groups)` groups whose scores differ most",
        paper="2504.20073",
        source="code",
        ours="at least one",
    )

    def __call__(self, turns: Turns, step: int) -> Tensor:
        spread = deviations(turns.score, turns.group, size=turns.score_size)
        prompts = dict(zip(turns.group.tolist(), turns.episodes, strict=True))
        sign = 1 if self.smallest else -1
        ranked = sorted(prompts, key=lambda group: (round(sign * spread[group].item(), DIGITS), prompts[group]))
        keep = torch.zeros(len(spread), dtype=torch.bool)
        keep[ranked[: max(1, self.kept(len(ranked)))]] = True
        return keep[turns.group]

    def kept(self, groups: int) -> int:
        """Return the number of groups to keep."""
        return math.floor(self.share * groups + 1e-9)
