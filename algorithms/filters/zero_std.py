"""Drops groups of equal scores, or samples other prompts to replace them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from turngrid.algorithms.pools import deviations
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import GROUPS, Card, Conflict, Method, number


def equal_scores(scores: Tensor, sizes: Tensor, group: Tensor) -> Tensor:
    """Mark groups of equal scores; (groups,) bool.

    Args:
        scores: (E,).
        sizes: (E,), as in ``turngrid.algorithms.pools.without_rounding``.
        group: (E,).
    """
    return deviations(scores, group, size=sizes) == 0


@dataclass(kw_only=True)
class ZeroStd(Method):
    """Drop groups of equal scores. Their advantages are 0; the loss gets a smaller divisor."""

    when = "before"
    requires = frozenset({GROUPS})
    card: ClassVar[Card] = Card("drops groups of equal scores", paper="2503.14476")

    def __call__(self, turns: Turns, step: int) -> Tensor:
        return ~equal_scores(turns.score, turns.score_size, turns.group)[turns.group]


@dataclass(kw_only=True)
class DynamicSampling(ZeroStd):
    """Replace groups of equal scores by samples of other prompts; drop the groups that remain.

    Attributes:
        sampler: module and class of verl's sampler, which gets the settings.
    """

    batches: int = number(1)

    sampler = ("pkg://turngrid.verl_plugin.training.dynamic_sampling", "DynamicSampler")
    conflicts = (
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
    card = Card(
        "samples other prompts in place of groups of equal scores, up to `batches` batches a step; all are charged and "
        "in the metrics of success",
        paper="2503.14476",
        ours="one for one",
    )
