from torch import Tensor

from turngrid.algorithms.pools import means, pools
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import GROUPS, LOSES_TURNS, OWN_TURNS, Method


class Salt(Method):
    """Average the advantages of a group's turns with equal (state, action, next state).

    A transition made once keeps its advantage. One that won and lost episodes share nears 0.
    """

    grains = frozenset({"turn", "episode"})
    requires = frozenset({GROUPS, OWN_TURNS})
    conflicts = (LOSES_TURNS,)

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        at = turns.flat()
        transition = pools(turns.group[at[0]], turns.state[at], turns.action[at], turns.after[at])
        result = advantages.clone()
        result[at] = means(advantages[at], transition)[transition]
        return result
