from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.credit.tree import BRANCHES, leaves
from turngrid.algorithms.pools import compared, means, pools
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import GROUPS, LOSES_KL, Conflict, Method, excludes, word


@dataclass(kw_only=True)
class TreeQ(Method):
    """SEEA-R1: ``A_t = (Q - mean) / (std + 1e-6)`` over a turn and its siblings.

    It replaces the advantage. Q is the mean score of the episodes that share the turn. Siblings are
    the turns that follow one turn, or that begin at the game's start in all trees of a prompt, each
    counted once. A turn without siblings has A = 0, or ``alone: episode`` what ``Tree`` gives its
    episode.
    """

    std: bool
    alone: str = word("zero", "episode")
    shared: str = word("each", "once")

    grains = frozenset({"turn", "episode"})
    requires = frozenset({GROUPS})
    conflicts = (
        BRANCHES,
        excludes("credit", "tree", reason="both compare the same episodes", use="credit=[tree_q]"),
        Conflict(("before",), lambda _, names: bool({*names} - {"tree"}), "it replaces what they return"),
        LOSES_KL,
    )

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        if turns.node is None or not len(turns.node):
            return advantages
        episode, turn = turns.flat()
        group, before = turns.group[episode], torch.nn.functional.pad(turns.node, (1, -1), value=-1)
        node = pools(group, turns.node[episode, turn])
        parent = torch.zeros_like(node.unique()).scatter(0, node, pools(group, before[episode, turn]))
        size = means(turns.score_size[episode], node)
        values = compared(means(turns.score[episode], node), parent, self.std, size=size)
        alone = torch.bincount(parent)[parent] == 1
        assert turns.tree is not None
        inside = compared(turns.score, pools(turns.group, turns.tree), self.std, size=turns.score_size)
        result = (advantages + inside.unsqueeze(1)) * (self.alone == "episode")
        result[episode, turn] = result[episode, turn].where(alone[node], values[node])
        return result / leaves(turns) if self.shared == "once" else result
