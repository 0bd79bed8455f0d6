"""SALT: a transition that several episodes of a group made gets the mean of their credit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from algorithms.pools import means, pools
from algorithms.turns import Turns
from rewards.declared import GROUPS, OWN_TURNS, Requires


@dataclass
class Salt:
    """The turns of a group with equal (state, action, state that followed) take the mean of their advantages (SALT, arXiv
    2510.20022; the rule as another paper's appendix states it, since there is no code).

    A transition that was made once keeps its own, so that without repeats nothing changes; one that wins and losses share goes
    towards 0. Each occurrence counts, also two in one episode (assumed).
    """

    grains: ClassVar[frozenset[str]] = frozenset({"turn", "episode"})
    requires: ClassVar[Requires] = frozenset({GROUPS, OWN_TURNS})

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        at = turns.flat()
        transition = pools(turns.group[at[0]], turns.state[at], turns.action[at], turns.after[at])
        found = advantages.clone()
        found[at] = means(advantages[at], transition)[transition]
        return found
