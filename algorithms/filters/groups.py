"""Filters that drop groups by their scores, or sample other prompts to replace them."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from turngrid.algorithms.pools import deviations, means
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import (
    GAMES_AGAIN,
    GROUPS,
    SYNCHRONOUS,
    WHOLE_STEP,
    Card,
    Conflict,
    Method,
    in_range,
    number,
)

DIGITS = 9  # tolerance: deviations that differ by less are equal, whatever the order of summation


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
    """Replace groups of equal scores by samples of other prompts; drop the groups that remain."""

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


@dataclass(kw_only=True)
class Difficulty(Method):
    """Keep groups whose mean score lies between ``low`` and ``high``, both excluded."""

    low: float = number()
    high: float = number()

    when = "before"
    requires = frozenset({GROUPS})
    card = Card("keeps groups with a mean score between `low` and `high`", paper="ROLL", source="code")

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range(self.low, high=self.high)

    def __call__(self, turns: Turns, step: int) -> Tensor:
        mean = means(turns.score, turns.group)
        return ((mean > self.low) & (mean < self.high))[turns.group]


@dataclass(kw_only=True)
class Solved(Method):
    """Leave out games that the policy solves, from the next epoch on.

    It keeps a step's episodes: ``verl_plugin/training/task_loader.py`` draws no solved game again.
    """

    share: float = number(0, 1)

    when = "before"
    requires = frozenset({GROUPS, SYNCHRONOUS, GAMES_AGAIN})
    conflicts = (
        Conflict(
            ("curriculum.name",),
            lambda _, name: name == "threshold",
            "a task's success would be that of its unsolved games",
            "curriculum=phases",
        ),
    )
    card = Card(
        "from an epoch to the next, leaves out games of which at least `share` of the samples had a reward above 0; "
        "for good, and never so many that a task has fewer games than a step has prompts",
        paper="2509.24107",
        ours="the least number of games, those solved most often going first; guided episodes do not count",
    )

    def __call__(self, turns: Turns, step: int) -> Tensor:
        return torch.ones(len(turns.group), dtype=torch.bool)
