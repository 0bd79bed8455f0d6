"""HiPER's prices on answers that say whether their subgoal stays."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from envs.utils.ranges import in_range
from rewards.shaping.view import RewardView

KEEP, SWITCH = "KEEP", "SWITCH"


@dataclass
class Subgoals:
    """``r_t -= keep / turns`` for each turn that keeps its subgoal, so that an episode pays ``keep`` times their share, and ``r_t -=
    changed`` where such a turn names another subgoal than the turn before (HiPER, arXiv 2602.16165, released code).

    Attributes:
        keep, changed: in units of the trained reward.
    """

    keep: float = 0.3
    changed: float = 0.3

    labels: ClassVar[tuple[str, ...]] = (KEEP, SWITCH)

    def __post_init__(self) -> None:
        in_range(0, keep=self.keep, changed=self.changed)

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
