"""Tree-GRPO: leaves of one tree are compared with each other, besides all leaves of the prompt."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.pools import compared
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import GROUPS, Card, Conflict, Method, word


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
