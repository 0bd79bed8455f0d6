"""Credit by the scores of trees (Tree-GRPO) and of groups (RAPO)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.filters.groups import equal_scores
from turngrid.algorithms.pools import compared
from turngrid.algorithms.registry import base_of
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import GROUPS, WHOLE_STEP, Card, Conflict, Method, number, word

DROPS_EQUAL = {"zero_std", "dynamic_sampling"}  # filters after which no group has equal scores


@dataclass(kw_only=True)
class Tree(Method):
    """``A_t += (R - mean) / (std + 1e-6)`` over the scores R of a tree's leaves; 0 if equal."""

    std: bool
    lone_leaf: str = word("zero", "raw")
    shared: str = word("each", "once")

    grains = frozenset({"turn", "episode"})
    requires = frozenset({GROUPS})
    conflicts = (Conflict(("branches",), lambda _, are: not are, "no episode branches off", "rollout_form=tree"),)
    card = Card(
        "adds GRPO within a tree to GRPO within the prompt",
        paper="2509.21240",
        source="code",
        ours="`shared: once`",
    )

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        if turns.tree is None or not len(turns.tree):
            return advantages
        _, tree = torch.unique(torch.stack([turns.group, turns.tree]), dim=1, return_inverse=True)
        inside = compared(turns.score, tree, self.std, size=turns.score_size)
        if self.lone_leaf == "raw":
            inside = torch.where(torch.bincount(tree)[tree] == 1, turns.score, inside)
        result = advantages + inside.unsqueeze(1)
        return result / leaves(turns) if self.shared == "once" else result


def leaves(turns: Turns) -> Tensor:
    """Count the episodes that share each turn; (E, K) float64, 1 where there is no turn."""
    assert turns.node is not None
    episode, turn = turns.flat()
    keys = torch.stack([turns.group[episode], turns.node[episode, turn]])
    _, where, count = torch.unique(keys, dim=1, return_inverse=True, return_counts=True)
    counts = torch.ones(turns.mask.shape, dtype=torch.float64)
    counts[episode, turn] = count[where].double()
    return counts


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
        ours="`most` 8 (there no cap)",
    )

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        good = int((~equal_scores(turns.score, turns.score_size, turns.group)).sum())
        groups = len(turns.group.unique())
        return advantages * (min(self.most, groups / good) if good else 0.0)
