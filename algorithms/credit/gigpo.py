"""GiGPO: turns that answered the same state are compared with each other, besides their episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.pools import compared, pools
from algorithms.slots import in_range
from algorithms.turns import Turns, discounted
from rewards.declared import GROUPS, OWN_TURNS, Requires


@dataclass
class Gigpo:
    """``A_t += weight * A^S_t`` (GiGPO, arXiv 2505.10978, equations 6 to 8).

    ``R_t = sum over k >= t of gamma^(k-t) r_k``. The turns of a group that answered equal states form a step group, repeats
    within an episode included, and ``A^S = (R_t - mean) / (std + 1e-6)`` there; 0 for a turn alone, or where all R are equal.

    Attributes:
        gamma: discount a turn.
        weight: of the step term beside the episode term.
        std: divide by the step group's (unbiased) standard deviation; follows ``algorithm.norm_adv_by_std_in_grpo`` by default,
            since one switch is meant for both terms, and is False over ``algo=rloo``.
        by_turns: as the released code has it, the mean and deviation of the *episode* term are taken over the group's turns, so
            that longer episodes weigh more; that term takes the place of the estimator's. The paper's are over episodes.
        costs_go_on: see ``returns_to_go``; False: as published.
    """

    gamma: float = 0.95
    weight: float = 1.0
    std: bool = True
    by_turns: bool = False
    costs_go_on: bool = True

    grains: ClassVar[frozenset[str]] = frozenset({"episode"})  # an estimator over turns whitens: another scale
    requires: ClassVar[Requires] = frozenset({GROUPS, OWN_TURNS})

    def __post_init__(self) -> None:
        in_range(0, 1, gamma=self.gamma)
        in_range(weight=self.weight)

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        at = turns.acting()
        episode = at[0]
        found = advantages.clone()
        if self.by_turns:
            scores, sizes = (numbers[episode] for numbers in (turns.score, turns.score_size))
            own = torch.zeros_like(turns.score)
            own[episode] = compared(scores, turns.group[episode], self.std, size=sizes)
            found[:] = own.unsqueeze(1)
        returns, size = (numbers[at] for numbers in returns_to_go(turns, self.gamma, self.costs_go_on))
        step_group = pools(turns.group[episode], turns.state[at])
        found[at] += self.weight * compared(returns, step_group, self.std, size=size)
        return found


def returns_to_go(turns: Turns, gamma: float, costs_go_on: bool) -> tuple[Tensor, Tensor]:
    """The turn's reward and all later ones, discounted by ``gamma`` a turn; and the same of their absolute values. (E, K) float64.

    Args:
        costs_go_on: every turn of an episode that was cut off counts as many turns ahead as its first. Those that it did not
            have cost what its turns cost on average (their rewards below 0). Otherwise late turns have fewer costs ahead than
            early ones that answered the same state, and running out of turns pays.
    """
    reward, step = turns.reward * turns.mask, turns.steps(gamma)
    returns, sizes = discounted(reward, step), discounted(reward.abs(), step)
    if costs_go_on:
        ahead = discounted(turns.acts.double(), step)
        cost = reward.clamp(max=0).sum(dim=1) / turns.acts.sum(dim=1).clamp(min=1) * turns.cut_off
        returns += cost.unsqueeze(1) * (ahead[:, :1] - ahead)
    return returns, sizes
