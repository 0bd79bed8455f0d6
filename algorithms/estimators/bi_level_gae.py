from dataclasses import dataclass

from torch import Tensor

from turngrid.algorithms.estimators.gae import turn_returns
from turngrid.algorithms.pools import whiten
from turngrid.algorithms.slots import Estimate, Tokens
from turngrid.algorithms.turns import Turns, discounted
from turngrid.rewards.declared import Method, number


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
