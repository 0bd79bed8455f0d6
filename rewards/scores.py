"""Rewards by score: the densities of the study (arXiv 2510.01132), F1, and that of matches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from turngrid.rewards.declared import number
from turngrid.rewards.reward import ScoredTurn, on_last


@dataclass(frozen=True)
class Sparse:
    """r_T = 1 on the last turn T of a won game; every other turn gets 0."""

    name: ClassVar[str] = "sparse"

    def turn_rewards(self, turns: Sequence[ScoredTurn], won: bool, max_score: float) -> list[float]:
        return on_last(turns, float(won))


@dataclass(frozen=True)
class Dense:
    """r_t = (score_t - score_{t-1}) / max_score; a won game's rewards add up to 1.

    Raises:
        ValueError: ``max_score`` is not positive.
    """

    name: ClassVar[str] = "dense"

    def turn_rewards(self, turns: Sequence[ScoredTurn], won: bool, max_score: float) -> list[float]:
        if max_score <= 0:
            raise ValueError(f"reward {self.name} divides by the game's maximum score, which is {max_score:g}")
        return [turn.score_delta / max_score for turn in turns]


@dataclass(frozen=True)
class ZeroSumSettings:
    """Rewards of a match that an invalid answer ended: of the seat that gave it, of the other."""

    invalid: float = number(-100, 100)
    other: float = number(-100, 100)


@dataclass(frozen=True)
class ZeroSum:
    """The seat's score on its last turn: 1 for a win, 0 for a draw or a match that was cut off, -1
    for a loss (SPIRAL, arXiv 2506.24119, with its released code's rewards of invalid answers)."""

    settings: ZeroSumSettings
    name: ClassVar[str] = "zero_sum"
    Settings: ClassVar[type] = ZeroSumSettings

    def turn_rewards(self, turns: Sequence[ScoredTurn], won: bool, max_score: float) -> list[float]:
        score = sum(turn.score_delta for turn in turns)
        if turns and turns[-1].info.get("forfeit"):
            score = self.settings.other if score > 0 else self.settings.invalid
        return on_last(turns, score)


@dataclass(frozen=True)
class F1:
    """The F1 of the answer on the last turn, from its ``info["f1"]``; 0 if none was given."""

    name: ClassVar[str] = "f1"

    def turn_rewards(self, turns: Sequence[ScoredTurn], won: bool, max_score: float) -> list[float]:
        return on_last(turns, float(turns[-1].info.get("f1", 0.0)) if turns else 0.0)
