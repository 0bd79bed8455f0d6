"""Credit by role: a mean and a deviation for each role of a group (Dr. MAS)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.pools import compared, pools
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import FIRST, GROUPS, LOSES_KL, Conflict, Method, word

ROLE, GROUP, TURN, EPISODE = "role", "group", "turn", "episode"


@dataclass(kw_only=True)
class RoleNorm(Method):
    """``A = (R - mean) / (std + 1e-6)`` over the answers of one role in the group.

    R is the score of the answer's episode. It replaces the advantage. A role with one answer in the
    group, or with equal scores, has A = 0.
    """

    per: str = word(ROLE, GROUP)
    count: str = word(TURN, EPISODE)
    std: bool

    grains = frozenset({"turn", "episode"})
    requires = frozenset({GROUPS})
    conflicts = (
        Conflict(("roles",), lambda _, roles: not roles, "an episode has one role", "roles=[planner,actor]"),
        FIRST,
        LOSES_KL,
    )

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        episode, turn = turns.flat()
        role = torch.zeros_like(turn) if turns.role is None or self.per == GROUP else turns.role[episode, turn]
        pool = pools(turns.group[episode], role)
        counted = pools(episode, pool) if self.count == EPISODE else torch.arange(len(pool))
        first = torch.zeros(int(counted.max()) + 1 if len(counted) else 0, dtype=torch.int64)
        first[counted] = torch.arange(len(counted))  # one answer each, as all have the same score
        scores, sizes = turns.score[episode][first], turns.score_size[episode][first]
        values = compared(scores, pool[first], self.std, size=sizes)
        return torch.zeros_like(turns.reward).masked_scatter(turns.mask, values[counted])
