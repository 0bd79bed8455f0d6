"""GAE on two levels: from turn to turn, then from token to token inside each turn."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from turngrid.algorithms.estimators.turn_gae import turn_returns
from turngrid.algorithms.pools import whiten
from turngrid.algorithms.slots import Estimate, Tokens
from turngrid.algorithms.turns import ActionTokens, Turns
from turngrid.rewards.declared import Card, Method, number


@dataclass(kw_only=True)
class BiLevelGae(Method):
    """RAGEN's and VAGEN's bi-level GAE, with turns by their ids.

    Over turns, with U_t the value at a turn's *last* action token: ``delta_t = r_t + gamma_turn
    U_{t+1} - U_t``, ``A_t = delta_t + gamma_turn lam A_{t+1}``, ``G_t = A_t + U_t``. Inside turn t,
    over its tokens 1..n with values v: ``A_n = G_t - v_n``, ``A_j = gamma v_{j+1} - v_j + gamma lam
    A_{j+1}``. Returns are ``A + v``. Advantages are whitened over action tokens. An episode that
    was cut off is treated as in ``TurnGae`` without ``bootstrap_truncated``.

    The released code takes tokens with a nonzero reward for turn ends. If only the end has a
    reward, it therefore treats an episode as one turn.
    """

    gamma_turn: float = number(0, 1)
    gamma: float = number(0, 1)
    lam: float = number(0, 1)

    needs = frozenset({"values"})
    grain = "token"
    card = Card(
        "is GAE from turn to turn, then inside each turn, whitened over tokens", paper="2504.20073", source="code"
    )

    def __call__(self, turns: Turns, tokens: Tokens) -> Estimate:
        assert tokens.value is not None
        at_end = turns.at_end(tokens.value)
        aims, goals = turn_returns(turns, at_end, self.gamma_turn, self.lam)
        acts = ActionTokens(turns)
        values = acts.read(tokens.value).double()
        advantages = _inside_turns(values, aims, acts, self.gamma, self.lam)
        learned = advantages if aims.equal(goals) else _inside_turns(values, goals, acts, self.gamma, self.lam)
        returns = acts.back(values.add_(learned))
        del values, learned  # a large step's 8-byte numbers may exceed memory
        return Estimate(acts.back(whiten(advantages, acts.read(tokens.mask))), returns)


def _inside_turns(values: Tensor, goal: Tensor, acts: ActionTokens, gamma: float, lam: float) -> Tensor:
    """Return each token's advantage towards its turn's goal; (n,).

    It starts with the last tokens of all turns, then takes those before them, and so on.

    Args:
        values: (n,).
        goal: (E, K).
    """
    ends = acts.begins + acts.lengths - 1
    advantages = (gamma * values.roll(-1)).sub_(values)
    advantages[ends] = goal.flatten()[acts.turn[ends]] - values[ends]
    for back in range(1, int(acts.lengths.max()) if len(ends) else 0):
        some = ends[acts.lengths > back] - back
        advantages[some] += gamma * lam * advantages[some + 1]
    return advantages
