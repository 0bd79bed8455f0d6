from dataclasses import dataclass
from itertools import pairwise

from turngrid.rewards.declared import Method, number
from turngrid.rewards.reward import RewardView

KEEP, SWITCH = "KEEP", "SWITCH"  # labels of HiPER's answers


@dataclass(kw_only=True)
class Subgoals(Method):
    """HiPER: ``r_t -= keep / turns`` for each turn that keeps its subgoal.

    An episode pays ``keep`` times the share of such turns. ``r_t -= changed`` if such a turn names
    another subgoal than the turn before.
    """

    keep: float = number(0)
    changed: float = number(0)

    labels = (KEEP, SWITCH)

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        turns = view.episode.turns
        keeps = [turn.label != SWITCH for turn in turns]
        other = [False, *(turn.thought != before.thought for before, turn in pairwise(turns))]
        return view.plus(
            [
                -keep * (self.keep / len(turns) + self.changed * changed)
                for keep, changed in zip(keeps, other, strict=True)
            ]
        )
