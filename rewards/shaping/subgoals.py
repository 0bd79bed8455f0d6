"""HiPER's penalties on answers that declare whether their subgoal stays."""

from dataclasses import dataclass
from itertools import pairwise

from turngrid.rewards.declared import Card, Method, number
from turngrid.rewards.shaping.view import RewardView

KEEP, SWITCH = "KEEP", "SWITCH"


@dataclass(kw_only=True)
class Subgoals(Method):
    """``r_t -= keep / turns`` for each turn that keeps its subgoal.

    An episode pays ``keep`` times the share of such turns. ``r_t -= changed`` if such a turn names
    another subgoal than the turn before.
    """

    keep: float = number(0)
    changed: float = number(0)

    labels = (KEEP, SWITCH)
    card = Card(
        "lowers the reward of turns that keep their subgoal, and of turns that say KEEP but name another subgoal",
        paper="2602.16165",
        source="code",
        ours="[see below](#hiper-and-rlvmr)",
    )

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
