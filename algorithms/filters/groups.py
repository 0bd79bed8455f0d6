"""Filters that drop or replace groups by their scores, or leave out solved games."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from turngrid.algorithms.pools import deviations, means
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import (
    GAMES_AGAIN,
    GROUPS,
    SYNCHRONOUS,
    WHOLE_STEP,
    Conflict,
    Method,
    in_range,
    number,
    only,
)

DIGITS = 9  # tolerance: deviations that differ by less are equal, whatever the order of summation


def equal_scores(scores: Tensor, sizes: Tensor, group: Tensor) -> Tensor:
    """Mark groups of equal scores; (E,) each -> (groups,) bool (``pools.without_rounding``)."""
    return deviations(scores, group, size=sizes) == 0


@dataclass(kw_only=True)
class ZeroStd(Method):
    """Drop groups of equal scores. Their advantages are 0; the loss gets a smaller divisor."""

    when = "before"
    requires = frozenset({GROUPS})

    def __call__(self, turns: Turns, step: int) -> Tensor:
        return ~equal_scores(turns.score, turns.score_size, turns.group)[turns.group]


@dataclass(kw_only=True)
class DynamicSampling(ZeroStd):
    """Replace groups of equal scores by samples of other prompts; drop those still equal."""

    batches: int = number(1)

    sampler = ("pkg://turngrid.verl_plugin.training.dynamic_sampling", "DynamicSampler")
    conflicts = (
        only("trainer.v1.trainer_mode", "sync", reason="the trainer samples ahead of a step", use="filter=[zero_std]"),
        only(
            "budget.count",
            "games",
            reason="it samples as many episodes as it takes, and the budget pays for a fixed number a step",
            use="budget.count=games or filter=[zero_std]",
        ),
    )


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


@dataclass(kw_only=True)
class StdMinP(ByStd):
    """Keep groups whose deviation is above 0 and at least ``share`` of the largest one."""

    share: float = number(1e-9, 1)

    def count(self, ranked: Sequence[float]) -> int:
        return sum(deviation > 0 and deviation >= self.share * ranked[0] - 10**-DIGITS for deviation in ranked)


@dataclass(kw_only=True)
class Difficulty(Method):
    """Keep groups whose mean score lies between ``low`` and ``high``, both excluded."""

    low: float = number()
    high: float = number()

    when = "before"
    requires = frozenset({GROUPS})

    def __post_init__(self) -> None:
        super().__post_init__()
        in_range("high", self.high, self.low)

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
    leaves_out = True
    requires = frozenset({GROUPS, SYNCHRONOUS, GAMES_AGAIN})
    conflicts = (
        Conflict(
            ("curriculum.name",),
            lambda _, name: name == "threshold",
            "a task's success would be that of its unsolved games",
            "curriculum=phases",
        ),
    )

    def __call__(self, turns: Turns, step: int) -> Tensor:
        return torch.ones(len(turns.group), dtype=torch.bool)
