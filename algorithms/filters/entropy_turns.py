from dataclasses import dataclass

from torch import Tensor

from turngrid.algorithms.pools import without_rounding
from turngrid.algorithms.turns import Turns
from turngrid.rewards.declared import WHOLE_STEP, Method, Names, excludes, number, word


@dataclass(kw_only=True)
class EntropyTurns(Method):
    """Mute turns whose mean token entropy is below the ``share`` quantile of a pool (``scope``).

    The quantile interpolates linearly. Turns at the quantile are kept.
    """

    share: float = number(0, 1)
    scope: str = word("group", "batch")

    when = "after"
    needs = frozenset({"entropy"})
    conflicts = (
        excludes("credit", "aem", "empg", reason="both act on the entropy of a turn", use="filter=[]", warns=True),
    )

    @property
    def requires(self) -> Names:  # type: ignore[override]
        return frozenset({WHOLE_STEP} if self.scope == "batch" else ())

    def __call__(self, turns: Turns, step: int) -> Tensor:
        assert turns.entropy is not None
        keep, (episode, turn) = turns.mask.clone(), turns.flat()
        entropy, pool = turns.entropy[episode, turn], turns.group[episode] * (self.scope == "group")
        bound = entropy.clone()
        for one in pool.unique():
            bound[pool == one] = entropy[pool == one].quantile(self.share)
        keep[episode, turn] = without_rounding(entropy - bound, pool, entropy.abs()) >= 0
        return keep
