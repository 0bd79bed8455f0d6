"""GiGPO: turns that answered the same state are compared with each other, besides their episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from algorithms.pools import compared, pools
from algorithms.slots import in_range
from algorithms.turns import Turns, discounted


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
    """

    gamma: float = 0.95
    weight: float = 1.0
    std: bool = True
    by_turns: bool = False

    grains: ClassVar[frozenset[str]] = frozenset({"episode"})  # an estimator over turns whitens: another scale
    compares: ClassVar[bool] = True
    compares_turns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        in_range(0, 1, gamma=self.gamma)
        in_range(weight=self.weight)

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        episode, turn = turns.flat()
        returns = returns_to_go(turns, self.gamma)[episode, turn]
        found = advantages.clone()
        if self.by_turns:
            found[episode, turn] = compared(turns.score[episode], turns.group[episode], self.std)
        step_group = pools(turns.group[episode], turns.state[episode, turn])
        found[episode, turn] += self.weight * compared(returns, step_group, self.std)
        return found


def returns_to_go(turns: Turns, gamma: float) -> Tensor:
    """(E, K) float64: the turn's reward and all later ones, discounted by ``gamma`` a turn."""
    return discounted(turns.reward * turns.mask, gamma)
