"""HGPO: turns are compared that answered the same state, and more so where what came before was the same too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.credit.gigpo import returns_to_go
from algorithms.pools import EPSILON, compared, pools
from algorithms.slots import in_range
from algorithms.turns import Turns
from rewards.declared import GROUPS, OWN_TURNS, Conflict, Requires


@dataclass
class Hgpo:
    """``A_t = sum over k of w_k a^k_t`` (HGPO, arXiv 2602.22817), in place of the estimator's advantages.

    For k from 1 to ``history + 1`` the turns of a group that answered the same k states in a row, repeats within an episode included, are
    compared by their discounted returns: ``a^k = (R_t - mean) / (std + 1e-6)``, with the biased deviation; 0 for one alone. ``w_k`` is in
    proportion to ``(k + 1)^alpha`` over the k whose ``a^k`` is not 0; where there is none the turn gets 0.

    Attributes:
        gamma: discount a turn.
        history: how many states before the turn's own count at most.
        alpha: how much more a longer history weighs.
        std: divide by the standard deviation; follows ``algorithm.norm_adv_by_std_in_grpo`` by default.
        base: count the estimator's advantage as the item k = 0.
        costs_go_on: see ``algorithms.credit.gigpo.returns_to_go``; False: as published.
    """

    gamma: float = 0.95
    history: int = 2
    alpha: float = 1.0
    std: bool = True
    base: bool = False
    costs_go_on: bool = True

    grains: ClassVar[frozenset[str]] = frozenset({"episode"})
    requires: ClassVar[Requires] = frozenset({GROUPS, OWN_TURNS})
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict(
            ("credit",),
            lambda _, names: bool({*names} & {"gigpo", "mt_grpo", "graft"}),
            "they would count the same turns twice",
            "credit=[hgpo]",
        ),
        Conflict(("before",), lambda _, names: bool(names), "it replaces what acts before it"),
        Conflict(
            ("algorithm.use_kl_in_reward",),
            lambda hgpo, on: on and not hgpo.base,
            "the advantages that it replaces had the KL",
            "algorithm.use_kl_in_reward=false actor_rollout_ref.actor.use_kl_loss=true",
            warns=True,
        ),
    )

    def __post_init__(self) -> None:
        in_range(0, 1, gamma=self.gamma)
        in_range(0, history=self.history, alpha=self.alpha)

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        at = turns.acting()
        total, weights = torch.zeros(len(at[0])).double(), torch.zeros(len(at[0])).double()
        for k, item in self._items(turns, advantages[at]):
            weight = (k + 1) ** self.alpha * (item != 0)
            total, weights = total + weight * item, weights + weight
        found = advantages.clone() if self.base else torch.zeros_like(advantages)
        found[at] = (total / (weights + EPSILON)).to(found.dtype)
        return found

    def _items(self, turns: Turns, base: Tensor) -> Iterator[tuple[int, Tensor]]:
        """k and (turns,) ``a^k``."""
        if self.base:
            yield 0, base
        at = turns.acting()
        returns, size = (numbers[at] for numbers in returns_to_go(turns, self.gamma, self.costs_go_on))
        own = path = pools(turns.group[at[0]], turns.state[at])
        for k in range(1, self.history + 2):
            has, item = turns.acted_before[at] >= k - 1, torch.zeros_like(returns)
            item[has] = compared(returns[has], path[has], self.std, biased=True, size=size[has])
            yield k, item
            path = pools(path.roll(1), own)  # that of the turn before, and this turn's state
