"""Generalised advantage estimation from turn to turn, inside each turn, and from token to token."""

from dataclasses import dataclass

import torch
from torch import Tensor

from turngrid.algorithms.pools import whiten
from turngrid.algorithms.slots import Estimate, Tokens
from turngrid.algorithms.turns import Turns, discounted
from turngrid.rewards.declared import Method, number, word

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


@dataclass(kw_only=True)
class TurnPpo(Lambdas):
    """``delta_t = r_t + gamma V_{t+1} - V_t`` and ``A_t = delta_t + gamma lam A_{t+1}``.

    V is the value at a turn's first action token. Returns are ``A + V``. V and A after the last
    turn are 0. Advantages are whitened over the batch's turns, each counted once whatever its
    number of tokens. A summary is no state and has no discount: its return is the next turn's.

    With ``bootstrap_truncated``, an episode that was cut off continues with its last turn's V.
    Without it, a V below 0 is added to the last turn's reward, only for the advantages, so that
    running out of turns does not pay by saving costs. An episode's length is its turns that act.
    """

    value_at: str = word("all", "first")
    bootstrap_truncated: bool

    needs = frozenset({"values"})
    grain = "turn"

    def __call__(self, turns: Turns, tokens: Tokens) -> Estimate:
        assert turns.value is not None
        rest = (turns, turns.value, self.gamma)
        aims, _ = turn_returns(*rest, self.of_policy(turns.acts.sum(dim=1)), self.bootstrap_truncated)
        _, returns = turn_returns(*rest, self.of_critic, self.bootstrap_truncated)
        targets = turns.starts() if self.value_at == "first" else None
        return Estimate(whiten(aims - turns.value, turns.mask), returns, targets)


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


@dataclass(kw_only=True)
class BiLevelGae(Method):
    """RAGEN's and VAGEN's bi-level GAE, with turns by their ids.

    Over turns, with U_t the value at a turn's *last* action token: ``delta_t = r_t + gamma_turn
    U_{t+1} - U_t``, ``A_t = delta_t + gamma_turn lam A_{t+1}``, ``G_t = A_t + U_t``. Inside turn t,
    over its tokens 1..n with values v: ``A_n = G_t - v_n``, ``A_j = gamma v_{j+1} - v_j + gamma lam
    A_{j+1}``. Returns are ``A + v``. Advantages are whitened over action tokens. An episode that
    was cut off is treated as in ``TurnPpo`` without ``bootstrap_truncated``.

    The released code takes tokens with a nonzero reward for turn ends. If only the end has a
    reward, it therefore treats an episode as one turn.
    """

    gamma_turn: float = number(0, 1)
    gamma: float = number(0, 1)
    lam: float = number(0, 1)

    needs = frozenset({"values"})
    grain = "token"

    def __call__(self, turns: Turns, tokens: Tokens) -> Estimate:
        assert tokens.value is not None
        aims, goals = turn_returns(turns, turns.at(turns.ends(), tokens.value), self.gamma_turn, self.lam)
        values = tokens.value.double().where(turns.place >= 0, 0.0)
        advantages, learned = (self._inside_turns(turns, values, goal) for goal in (aims, goals))
        return Estimate(whiten(advantages, tokens.mask).float(), (values + learned).float())

    def _inside_turns(self, turns: Turns, values: Tensor, goal: Tensor) -> Tensor:
        """Return each token's advantage towards its turn's goal, (E, K); (B, T) float64."""
        acts, ends = turns.place >= 0, turns.ends()
        inside = self.gamma * values.roll(-1, dims=1)
        deltas = (turns.spread(goal).where(ends, inside) - values) * acts
        return discounted(deltas, self.gamma * self.lam * (acts & ~ends).double())


@dataclass(kw_only=True)
class Vapo(Lambdas):
    """GAE from token to token, with a lambda for the policy and one for the critic (VAPO).

    ``delta_i = r_i + gamma v_{i+1} - v_i`` and ``A_i = delta_i + gamma lam A_{i+1}`` over the
    action tokens of an episode, those of all its rows. Returns are ``A + v``; values and A after
    the last token are 0. Advantages are whitened over action tokens. With null lambdas this is
    verl's GAE. An episode's length is its action tokens.
    """

    needs = frozenset({"values"})
    grain = "token"

    def __call__(self, turns: Turns, tokens: Tokens) -> Estimate:
        assert tokens.value is not None
        values = tokens.value.double().where(turns.place >= 0, 0.0)
        lambdas = (self.of_policy(turns.tokens.sum(dim=1)), self.of_critic)
        advantages, learned = (self._gae(turns, tokens.reward, values, lam) for lam in lambdas)
        return Estimate(whiten(advantages, tokens.mask).float(), (values + learned).float())

    def _gae(self, turns: Turns, reward: Tensor, values: Tensor, lam: float | Tensor) -> Tensor:
        """Return A of every action token before whitening, 0 elsewhere; (B, T) float64."""
        place = turns.place.flatten()
        acting = (place >= 0).nonzero().flatten()
        acting = acting[place[acting].argsort(stable=True)]  # by episode, turn and token
        episode = place[acting] // max(1, turns.mask.shape[1])
        count = torch.bincount(episode, minlength=len(turns.mask))
        token = torch.arange(len(acting)) - (count.cumsum(0) - count)[episode]
        ours = values.new_zeros((2, len(count), max([0, *count.tolist()]) + 1))
        ours[:, episode, token] = torch.stack([reward.double().flatten()[acting], values.flatten()[acting]])
        deltas = ours[0, :, :-1] + self.gamma * ours[1, :, 1:] - ours[1, :, :-1]
        result = torch.zeros_like(values).flatten()
        result[acting] = discounted(deltas, self.gamma * lam)[episode, token]
        return result.reshape(values.shape)
