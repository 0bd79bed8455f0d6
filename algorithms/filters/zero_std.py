"""Groups whose scores are all equal have nothing to tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from algorithms.pools import deviations
from algorithms.slots import in_range
from algorithms.turns import Turns
from rewards.declared import GROUPS, Conflict, Requires


def equal_scores(scores: Tensor, sizes: Tensor, group: Tensor) -> Tensor:
    """(groups,) bool, of (E,) each; ``sizes`` as of ``algorithms.pools.without_rounding``."""
    return deviations(scores, group, size=sizes) == 0


@dataclass
class ZeroStd:
    """Drop groups of equal scores (arXiv 2503.14476). Their advantages are 0 in any case: what changes is that the loss is not
    divided by their tokens too."""

    when: ClassVar[Literal["before", "after"]] = "before"
    requires: ClassVar[Requires] = frozenset({GROUPS})

    def __call__(self, turns: Turns, step: int) -> Tensor:
        return ~equal_scores(turns.score, turns.score_size, turns.group)[turns.group]


@dataclass
class DynamicSampling(ZeroStd):
    """DAPO's dynamic sampling (arXiv 2503.14476): other prompts are played in place of groups of equal scores, before the step's
    update. Those that are left once a step has played its most are dropped.

    Attributes:
        batches: of prompts that a step may play at most, in all.
    """

    batches: int = 10

    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict(
            ("trainer.v1.trainer_mode",),
            lambda _, mode: mode != "sync",
            "it samples more within a step, and the trainer samples ahead",
            "filter=[zero_std]",
        ),
        Conflict(
            ("budget.count",),
            lambda _, count: count == "rollouts",
            "it samples as many episodes as it takes, and the budget pays for a fixed number a step",
            "budget.count=games or filter=[zero_std]",
        ),
    )

    def __post_init__(self) -> None:
        in_range(1, batches=self.batches)
