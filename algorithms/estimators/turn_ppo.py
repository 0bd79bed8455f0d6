from dataclasses import dataclass

from turngrid.algorithms.estimators.gae import Lambdas, turn_returns
from turngrid.algorithms.pools import whiten
from turngrid.algorithms.slots import Estimate, Tokens
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import word


@dataclass(kw_only=True)
class TurnPpo(Lambdas):
    """Turn-PPO: ``delta_t = r_t + gamma V_{t+1} - V_t`` and ``A_t = delta_t + gamma lam A_{t+1}``.

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
