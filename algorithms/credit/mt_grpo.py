from dataclasses import dataclass, replace

from torch import Tensor

from turngrid.algorithms.pools import compared, pools
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import GROUPS, LOSES_KL, OWN_TURNS, Conflict, Method, number, word


@dataclass(kw_only=True)
class MtGrpo(Method):
    """Compare turns t: ``A_t += weight * z(turn reward)``, ``z = (r - mean) / (std + 1e-6)``.

    Mean and deviation are over turn t of the group's episodes. z is 0 for one alone, or if all are
    equal. The released code adds 1e-4. ``scope=first``: only the first turn gets the term.
    ``outcome=won``: the advantage is first replaced by z of winning (1 or 0).
    """

    turn: str = word("valid", "parsed", "reward")
    outcome: str = word("reward", "won")
    scope: str = word("own", "first")
    weight: float = number()

    grains = frozenset({"episode"})
    requires = frozenset({GROUPS, OWN_TURNS})
    conflicts = (
        Conflict(
            ("agent stops",),
            lambda credit, stops: stops and (credit.outcome, credit.scope) == ("won", "own"),
            "turn t is compared with other turns t alone, so what only longer episodes earn is not credited",
            "credit.mt_grpo.outcome=reward",
            warns=True,
        ),
        replace(LOSES_KL, when=lambda credit, on: on and credit.outcome == "won"),
    )

    def __call__(self, turns: Turns, advantages: Tensor) -> Tensor:
        result = advantages.clone()
        if self.outcome == "won":
            result[:] = compared(turns.won.double(), turns.group, std=True).unsqueeze(1)
        at = turns.acting()
        turn_number = turns.acted_before[at]
        term = compared(getattr(turns, self.turn)[at].double(), pools(turns.group[at[0]], turn_number), std=True)
        result[at] += self.weight * (term if self.scope == "own" else term * (turn_number == 0))
        return result
