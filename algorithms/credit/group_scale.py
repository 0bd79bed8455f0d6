"""RAPO: the fewer groups have unequal scores, the more their advantages count."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from turngrid.algorithms.filters.groups import equal_scores
from turngrid.algorithms.registry import base_of
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import GROUPS, WHOLE_STEP, Card, Conflict, Method, number

DROPS_EQUAL = {"zero_std", "dynamic_sampling"}


@dataclass(kw_only=True)
class GroupScale(Method):
    """``A_t *= min(most, G / G_good)``: G groups, of which G_good have unequal scores.

    If no group has, every advantage is 0.
    """

    most: float = number(1)

    grains = frozenset({"episode"})
    requires = frozenset({GROUPS, WHOLE_STEP})
    conflicts = (
        Conflict(
            ("filter",),
            lambda _, names: bool({*names} & DROPS_EQUAL),
            "no group of equal scores is left, so its factor is 1",
            "filter=[]",
        ),
        Conflict(("after",), lambda _, names: bool(names), "it scales what the other methods return"),
        Conflict(
            ("algo.name",),
            lambda _, word: base_of(word) == "lite_ppo",
            "advantages are divided by their deviation over the step already",
            "algo=grpo",
        ),
    )
    card = Card(
        "multiplies all advantages by (number of groups) / (number of groups with unequal scores), at most `most`; "
        "so the gradient keeps its size if few groups have unequal scores",
        paper="2509.24107",
        needs="no credit after it",
        ours="`most` 8 (there no cap); the rest of RAPO is not built: pruning of solved prompts",
    )

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        good = int((~equal_scores(turns.score, turns.score_size, turns.group)).sum())
        groups = len(turns.group.unique())
        return advantages * (min(self.most, groups / good) if good else 0.0)
