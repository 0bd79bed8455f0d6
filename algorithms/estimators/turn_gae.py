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
    A summary is no state and carries no discount: its return is that of the turn after it.

    Attributes:
        gamma: discount a turn.
        lam: GAE's lambda, a turn.
        value_at: the action tokens of a turn that the critic is trained on, ``all`` (as in StepPO's code) or the ``first``.
        bootstrap_truncated: an episode that was cut off goes on with its last turn's V, and not with 0. If false, a V below 0 is added
            to the last turn's reward for the advantages alone, so that running out of turns is not paid for the costs that it spares.
    """

    gamma: float = 0.99
    lam: float = 0.9
    value_at: str = "all"
    bootstrap_truncated: bool = False

    needs: ClassVar[Needs] = frozenset({"values"})
    grain: ClassVar[str] = "turn"

    def __post_init__(self) -> None:
        in_range(0, 1, gamma=self.gamma, lam=self.lam)
        if self.value_at not in PLACES:
            raise ValueError(f"value_at={self.value_at} must be one of: {', '.join(PLACES)}")

    def __call__(self, turns: Turns, tokens: Tokens) -> Estimate:
        assert turns.value is not None
        aims, returns = turn_returns(turns, turns.value, self.gamma, self.lam, self.bootstrap_truncated)
        targets = turns.starts() if self.value_at == "first" else None
        return Estimate(whiten(aims - turns.value, turns.mask), returns, targets)


def turn_returns(
    turns: Turns, values: Tensor, gamma: float, lam: float, bootstrap: bool = False
) -> tuple[Tensor, Tensor]:
    """A + V of every turn, (E, K) float64 each: that of the advantages, before whitening, and what the critic learns.

    Args:
        values: (E, K), 0 where there is no turn.
        bootstrap: see ``TurnGae.bootstrap_truncated``.
    """
    following, steps = turns.following(values), turns.steps(gamma)
    states = values.where(turns.acts, following) * turns.mask
    at_cut = torch.zeros_like(values)
    cut = turns.cut_off.nonzero().flatten()
    at_cut[cut, turns.last[cut]] = values[cut, turns.last[cut]]

    def returns(after: Tensor) -> Tensor:
        deltas = (turns.reward + steps * following + after - states) * turns.mask
        return discounted(deltas, turns.steps(gamma * lam)) + states

    if bootstrap:
        return (both := returns(gamma * at_cut)), both
    return returns(at_cut.clamp(max=0)), returns(torch.zeros_like(at_cut))
