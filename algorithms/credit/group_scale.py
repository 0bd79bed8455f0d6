from dataclasses import dataclass

from torch import Tensor

from turngrid.algorithms.filters.zero_std import equal_scores
from turngrid.algorithms.registry import base_of
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import GROUPS, WHOLE_STEP, Conflict, Method, excludes, number, without


@dataclass(kw_only=True)
class GroupScale(Method):
    """RAPO: ``A_t *= min(most, G / G_good)``: G groups, of which G_good have unequal scores.

    If no group has, every advantage is 0.
    """

    most: float = number(1)

    grains = frozenset({"episode"})
    requires = frozenset({GROUPS, WHOLE_STEP})
    conflicts = (
        excludes("filter", "zero_std", "dynamic_sampling", reason="no group has equal scores, so its factor is 1"),
        without("after", "it scales what the other methods return"),
        Conflict(
            ("algo.name",),
            lambda _, word: base_of(word) in ("lite_ppo", "seeupo"),
            "advantages are divided by their deviation over the step already",
            "algo=grpo",
        ),
    )

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        good = int((~equal_scores(turns.score, turns.score_size, turns.group)).sum())
        groups = len(turns.group.unique())
        return advantages * (min(self.most, groups / good) if good else 0.0)
