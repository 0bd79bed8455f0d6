"""Only the groups whose scores differ most are learned from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from algorithms.pools import deviations
from algorithms.slots import in_range
from algorithms.turns import Turns
from rewards.declared import GROUPS, WHOLE_STEP, Conflict, Requires

DIGITS = 9  # of a deviation: what is nearer than that is equal, in whatever order it was summed


@dataclass
class StdTop:
    """Keep the ``int(share * groups)`` groups with the largest standard deviation of scores, but at least one (RAGEN's StarPO-S, arXiv
    2504.20073, as released); of equal ones those whose prompts come first.

    Attributes:
        share: 0.25 in StarPO-S, 0.75 in SPEAR.
        smallest: keep those with the smallest instead.
    """

    share: float = 0.25
    smallest: bool = False

    when: ClassVar[Literal["before", "after"]] = "before"
    requires: ClassVar[Requires] = frozenset({GROUPS, WHOLE_STEP})
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict(
            ("data.train_batch_size",),
            lambda top, groups: top.kept(groups) == 0,
            "int({method.share} x {0}) = 0 groups are kept",
            "a higher filter.std_top.share",
        ),
    )

    def __post_init__(self) -> None:
        in_range(0, 1, share=self.share)

    def __call__(self, turns: Turns, step: int) -> Tensor:
        spread = deviations(turns.score, turns.group, size=turns.score_size)
        prompts = dict(zip(turns.group.tolist(), turns.episodes, strict=True))
        sign = 1 if self.smallest else -1
        ranked = sorted(prompts, key=lambda group: (round(sign * spread[group].item(), DIGITS), prompts[group]))
        keep = torch.zeros(len(spread), dtype=torch.bool)
        keep[ranked[: max(1, self.kept(len(ranked)))]] = True
        return keep[turns.group]

    def kept(self, groups: int) -> int:
        """How many of so many groups."""
        return math.floor(self.share * groups + 1e-9)
