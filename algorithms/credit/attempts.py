from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.pools import compared, pools, sums
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import FIRST, GROUPS, LOSES_KL, Conflict, Method


@dataclass(kw_only=True)
class Attempts(Method):
    """SCoRe: ``A_t = (r - mean) / (std + 1e-6)``, r the sum of rewards of the attempt of turn t.

    The mean is over the attempts of this number in the group. It replaces the advantage.
    """

    std: bool

    grains = frozenset({"turn", "episode"})
    requires = frozenset({GROUPS})
    conflicts = (
        Conflict(("several plays",), lambda _, are: not are, "an episode is one attempt", "rollout_form=attempts"),
        FIRST,
        LOSES_KL,
    )

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        if turns.attempt is None or not len(turns.attempt):
            return advantages
        episode, turn = turns.flat()
        number, rewards = turns.attempt[episode, turn], turns.reward[episode, turn]
        own = pools(episode, number)
        same = torch.zeros_like(own.unique()).scatter(0, own, pools(turns.group[episode], number))
        values = compared(sums(rewards, own), same, self.std, size=sums(rewards.abs(), own))
        return torch.zeros_like(turns.reward).masked_scatter(turns.mask, values[own])
