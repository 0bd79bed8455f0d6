"""SALT: a transition that several episodes of a group made gets the mean of their credit."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from turngrid.algorithms.pools import means, pools
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import GROUPS, OWN_TURNS, Card, Method


@dataclass(kw_only=True)
class Salt(Method):
    """Average the advantages of a group's turns with equal (state, action, next state).

    A transition that was made once keeps its advantage. One that wins and losses share goes towards
    0.
    """

    grains = frozenset({"turn", "episode"})
    requires = frozenset({GROUPS, OWN_TURNS})
    card = Card(
        "gives turns of a group with equal (state, action, next state) the mean of their advantages",
        paper="2510.20022",
        source="another paper's appendix",
        ours="each occurrence counts, also two in one episode",
    )

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        at = turns.flat()
        transition = pools(turns.group[at[0]], turns.state[at], turns.action[at], turns.after[at])
        result = advantages.clone()
        result[at] = means(advantages[at], transition)[transition]
        return result
