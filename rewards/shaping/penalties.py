"""Penalties for invalid or unparsed turns, and HiPER's for kept or renamed subgoals."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from turngrid.rewards.declared import Method, number, word
from turngrid.rewards.reward import RewardView

KEEP, SWITCH = "KEEP", "SWITCH"  # labels of HiPER's answers


@dataclass(kw_only=True)
class Penalty(Method):
    """``r_t -= coefficient`` for each turn at fault; ``at=last``: on the last turn, the total.

    ``flag``: the attribute that is False for a turn at fault.
    """

    flag: ClassVar[str]
    coefficient: float = number(0)
    at: str = word("own", "last")

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        prices = [-self.coefficient * (not getattr(turn, self.flag)) for turn in view.episode.turns]
        return view.plus(prices) if self.at == "own" else view.plus_last(sum(prices))


@dataclass(kw_only=True)
class InvalidAction(Penalty):
    """A penalty for turns that the environment did not understand, or that have no action."""

    flag = "valid"


@dataclass(kw_only=True)
class Format(Penalty):
    """A penalty for answers from which no action could be read."""

    flag = "parsed"


@dataclass(kw_only=True)
class Subgoals(Method):
    """``r_t -= keep / turns`` for each turn that keeps its subgoal.

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
