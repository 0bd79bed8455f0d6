"""Filters that mute episodes or turns, which stay in the baseline of their group."""

from dataclasses import dataclass

from torch import Tensor

from turngrid.algorithms.pools import without_rounding
from turngrid.algorithms.turns import OUTCOMES, Turns
from turngrid.rewards.declared import WHOLE_STEP, Method, Names, excludes, number, only, word


@dataclass(kw_only=True)
class VoidTurns(Method):
    """Mute an episode with a void turn; the agent loop reads ``stop``."""

    void: str = word("unparsed", "invalid")
    stop: bool | None

    when = "after"

    def __call__(self, turns: Turns, step: int) -> Tensor:
        good = turns.parsed & turns.valid if self.void == "invalid" else turns.parsed
        return (good | ~turns.mask).all(dim=1)


@dataclass(kw_only=True)
class OverTurns(Method):
    """Mute an episode that ran out of turns or of context."""

    when = "after"
    conflicts = (
        only(
            "turn_reward.name",
            "sparse",
            "binary",
            reason="episodes that were cut off are left out, with what the reward paid them",
            use="reward=sparse",
            warns=True,
        ),
    )

    def __call__(self, turns: Turns, step: int) -> Tensor:
        return ~turns.cut_off


@dataclass(kw_only=True)
class DrBot(Method):
    """Mute an episode that ran out of context, or with an unparsed or garbled turn."""

    when = "after"

    def __call__(self, turns: Turns, step: int) -> Tensor:
        assert turns.garbled is not None
        good = (turns.parsed & ~turns.garbled) | ~turns.mask
        return good.all(dim=1) & (turns.outcome != OUTCOMES.index("out_of_context"))


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
