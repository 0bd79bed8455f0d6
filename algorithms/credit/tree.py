from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.pools import compared, pools
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import GROUPS, Conflict, Method, word

BRANCHES = Conflict(("branches",), lambda _, are: not are, "no episode branches off", "rollout_form=tree")


@dataclass(kw_only=True)
class Tree(Method):
    """Tree-GRPO: ``A_t += (R - mean) / (std + 1e-6)`` over the scores R of a tree's leaves.

    The term is 0 for a leaf alone, or if all scores of the tree are equal.
    """

    std: bool
    shared: str = word("each", "once")

    grains = frozenset({"turn", "episode"})
    requires = frozenset({GROUPS})
    conflicts = (BRANCHES,)

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        if turns.tree is None or not len(turns.tree):
            return advantages
        inside = compared(turns.score, pools(turns.group, turns.tree), self.std, size=turns.score_size)
        result = advantages + inside.unsqueeze(1)
        return result / leaves(turns) if self.shared == "once" else result


def leaves(turns: Turns) -> Tensor:
    """Count the episodes that share each turn; (E, K) float64, 1 where there is no turn."""
    assert turns.node is not None
    episode, turn = turns.flat()
    keys = torch.stack([turns.group[episode], turns.node[episode, turn]])
    _, where, count = torch.unique(keys, dim=1, return_inverse=True, return_counts=True)
    return torch.ones(turns.mask.shape, dtype=torch.float64).masked_scatter(turns.mask, count[where].double())
