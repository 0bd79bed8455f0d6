from dataclasses import dataclass

import torch

from turngrid.algorithms.estimators.rae import task_of
from turngrid.algorithms.group import group_ids
from turngrid.algorithms.pools import centred, pools
from turngrid.algorithms.slots import Estimate, Tokens
from turngrid.algorithms.turns import Turns, discounted
from turngrid.rewards.declared import WHOLE_STEP, Method, number


@dataclass(kw_only=True)
class RoleMean(Method):
    """MARSHAL: ``A_t = G_t - mean of G over the step's turns of the same task and seat, or role``.

    ``G_t = r_t + gamma G_{t+1}``. No deviation, no group.
    """

    gamma: float = number(0, 1)

    grain = "turn"
    requires = frozenset({WHOLE_STEP})

    def __call__(self, turns: Turns, tokens: Tokens) -> Estimate:
        returns, sizes = (
            discounted(rewards * turns.mask, turns.steps(self.gamma)) for rewards in (turns.reward, turns.reward.abs())
        )
        task, (episode, turn) = group_ids([*map(task_of, turns.tasks)] or [""] * len(returns)), turns.flat()
        role = torch.zeros_like(turn) if turns.role is None else turns.role[episode, turn]
        values = centred(returns[turns.mask], pools(task[episode], role), sizes[turns.mask])
        return Estimate(torch.zeros_like(returns).masked_scatter(turns.mask, values), returns)
