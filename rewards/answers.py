"""A reward of questions that are answered in words (``turngrid.envs.search.scores``)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from turngrid.rewards.reward import ScoredTurn


@dataclass(frozen=True)
class F1:
    """The F1 of the answer on the last turn, from its ``info["f1"]``; 0 if none was given."""

    name: ClassVar[str] = "f1"

    def turn_rewards(self, turns: Sequence[ScoredTurn], won: bool, max_score: float) -> list[float]:
        return [0.0] * (len(turns) - 1) + [float(turn.info.get("f1", 0.0)) for turn in turns[-1:]]
