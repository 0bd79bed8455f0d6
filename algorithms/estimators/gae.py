"""What estimators by GAE share: two lambdas, and GAE from turn to turn."""

from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.turns import Turns, discounted
from turngrid.rewards.declared import Method, number

SHORTEST = 1e-3  # lambda_length is a divisor


@dataclass(kw_only=True)
class Lambdas(Method):
    """GAE's discount, and its lambdas for the policy and for the critic (VAPO).

    ``lambda_critic``, if not None, is the lambda of the returns. If ``lambda_length`` is not None,
    the lambda of an episode's advantages is ``max(0, 1 - 1 / (lambda_length * length))``.
    """

    gamma: float = number(0, 1)
    lam: float = number(0, 1)
    lambda_critic: float | None = number(0, 1)
    lambda_length: float | None = number(SHORTEST)

    def of_policy(self, length: Tensor) -> float | Tensor:
        """Return the lambda of the advantages, (E, 1) if it depends on the length of episodes."""
        if self.lambda_length is None:
            return self.lam
        return (1 - 1 / (self.lambda_length * length.clamp(min=1).double())).clamp(min=0).unsqueeze(1)

    @property
    def of_critic(self) -> float:
        return self.lam if self.lambda_critic is None else self.lambda_critic


def turn_returns(
    turns: Turns, values: Tensor, gamma: float, lam: float | Tensor, bootstrap: bool = False
) -> tuple[Tensor, Tensor]:
    """Return A + V of every turn, before whitening, and the critic's targets; (E, K) float64 each.

    Args:
        values: (E, K), 0 where there is no turn.
        lam: one for all, or (E, 1).
        bootstrap: ``TurnPpo.bootstrap_truncated``.
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
