"""Generalised advantage estimation from turn to turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from algorithms.masked import whiten
from algorithms.slots import Estimate, Needs, Tokens, in_range
from algorithms.turns import Turns, discounted

PLACES = ("all", "first")


@dataclass
class TurnGae:
    """``delta_t = r_t + gamma V_{t+1} - V_t`` and ``A_t = delta_t + gamma lam A_{t+1}`` over an episode's turns, with V at a turn's
    first action token (Turn-PPO, arXiv 2512.17008; StepPO, arXiv 2604.18401). Returns are ``A + V``.

    V and A after the last turn are 0. Advantages are whitened over the batch's turns, each counted once however many tokens it has.

    Attributes:
        gamma: discount a turn.
        lam: GAE's lambda, a turn.
        value_at: the action tokens of a turn that the critic is trained on, ``all`` (as in StepPO's code) or the ``first``.
        bootstrap_truncated: an episode that was cut off goes on with its last turn's V, and not with 0.
    """

    gamma: float = 0.99
    lam: float = 0.9
    value_at: str = "all"
    bootstrap_truncated: bool = False

    needs: ClassVar[Needs] = frozenset({"values"})
    compares: ClassVar[bool] = False
    grain: ClassVar[str] = "turn"

    def __post_init__(self) -> None:
        in_range(0, 1, gamma=self.gamma, lam=self.lam)
        if self.value_at not in PLACES:
            raise ValueError(f"value_at={self.value_at} must be one of: {', '.join(PLACES)}")

    def __call__(self, turns: Turns, tokens: Tokens) -> Estimate:
        assert turns.value is not None
        advantages = turn_advantages(turns, turns.value, self.gamma, self.lam, self.bootstrap_truncated)
        targets = turns.starts() if self.value_at == "first" else None
        return Estimate(whiten(advantages, turns.mask), advantages + turns.value, targets)


def turn_advantages(turns: Turns, values: Tensor, gamma: float, lam: float, bootstrap: bool = False) -> Tensor:
    """(E, K) float64, before whitening.

    Args:
        values: (E, K), 0 where there is no turn.
        bootstrap: see ``TurnGae.bootstrap_truncated``.
    """
    following = torch.nn.functional.pad(values, (0, 1))[:, 1:]
    if bootstrap:
        cut = turns.cut_off.nonzero().flatten()
        following[cut, turns.last[cut]] = values[cut, turns.last[cut]]
    return discounted((turns.reward + gamma * following - values) * turns.mask, gamma * lam)
