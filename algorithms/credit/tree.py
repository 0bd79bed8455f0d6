"""Tree-GRPO: leaves of one tree are compared with each other, besides all leaves of the prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.pools import compared
from algorithms.turns import Turns
from rewards.declared import GROUPS, Conflict, Requires

ZERO, RAW = LONE = ("zero", "raw")
EACH, ONCE = SHARED = ("each", "once")


@dataclass
class Tree:
    """``A_t += (R - mean) / (std + 1e-6)`` over the scores R of the leaves of the same tree (Tree-GRPO, arXiv 2509.21240); 0 where
    they are equal.

    Attributes:
        std: divide by the (unbiased) standard deviation.
        lone_leaf: what a tree with one leaf adds: ``zero``, or as in the released code its ``raw`` score.
        shared: a turn that several leaves share is learned from in ``each`` of them, as in the released code; or ``once``: with
            1 / leaves of its advantage in each (ours).

    Raises:
        ValueError: a word that is none of these.
    """

    std: bool = True
    lone_leaf: str = ZERO
    shared: str = EACH

    grains: ClassVar[frozenset[str]] = frozenset({"turn", "episode"})
    requires: ClassVar[Requires] = frozenset({GROUPS})
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict(("branches",), lambda _, are: not are, "no episode branches off", "rollout_form=tree"),
    )

    def __post_init__(self) -> None:
        for name, known in (("lone_leaf", LONE), ("shared", SHARED)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name}={getattr(self, name)} must be one of: {', '.join(known)}")

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        if turns.tree is None or not len(turns.tree):
            return advantages
        _, tree = torch.unique(torch.stack([turns.group, turns.tree]), dim=1, return_inverse=True)
        inside = compared(turns.score, tree, self.std, size=turns.score_size)
        if self.lone_leaf == RAW:
            inside = torch.where(torch.bincount(tree)[tree] == 1, turns.score, inside)
        found = advantages + inside.unsqueeze(1)
        return found / leaves(turns) if self.shared == ONCE else found


def leaves(turns: Turns) -> Tensor:
    """(E, K) float64: how many episodes share the turn; 1 where there is no turn."""
    assert turns.node is not None
    episode, turn = turns.flat()
    keys = torch.stack([turns.group[episode], turns.node[episode, turn]])
    _, where, count = torch.unique(keys, dim=1, return_inverse=True, return_counts=True)
    found = torch.ones(turns.mask.shape, dtype=torch.float64)
    found[episode, turn] = count[where].double()
    return found
