from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.credit.tree import BRANCHES, leaves
from turngrid.algorithms.pools import centred, pools
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import FIRST, GROUPS, LOSES_KL, Conflict, Method, number, only


@dataclass(kw_only=True)
class Pair(Method):
    """``A = 2 eta (R_1 - R_2)`` on the turn from which two episodes differ, else 0 (REFUEL).

    The two are a tree. It replaces the advantage. It is the gradient of ``-(d_1 - d_2 - eta (R_1 -
    R_2))^2`` at d = 0, as at a batch's first update; d is the change of the turn's summed log-prob.
    """

    eta: float = number(0)

    grains = frozenset({"turn", "episode"})
    requires = frozenset({GROUPS})
    conflicts = (
        BRANCHES,
        Conflict(
            ("rollout_form.tree.nodes", "rollout_form.tree.rounds"),
            lambda _, nodes, rounds: (nodes, rounds) != (1, 1),
            "it compares two episodes",
            "rollout_form.tree.nodes=1 rollout_form.tree.rounds=1",
        ),
        FIRST,
        only("actor_rollout_ref.actor.ppo_epochs", 1, reason="a later update would need both episodes in one pass"),
        LOSES_KL,
    )

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        if turns.node is None or turns.tree is None or not len(turns.tree):
            return advantages
        tree = pools(turns.group, turns.tree)
        apart = 2 * centred(turns.score, tree, turns.score_size)  # of a pair: score less the other's
        paid = torch.where(torch.bincount(tree)[tree] == 2, 2 * self.eta * apart, 0.0)
        first = ((leaves(turns) > 1) & turns.mask).sum(dim=1)
        result = torch.zeros_like(advantages)
        return result.scatter(1, first.unsqueeze(1), paid.unsqueeze(1).to(result.dtype))
