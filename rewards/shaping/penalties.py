"""A price for turns that led to nothing."""

from __future__ import annotations

import abc
from dataclasses import dataclass

from envs.utils.ranges import in_range
from rewards.shaping.view import LAST, OWN, PlayedTurn, RewardView


@dataclass
class Penalty(abc.ABC):
    """``r_t -= coefficient`` for each turn at fault.

    Attributes:
        coefficient: in units of the trained reward.
        at: ``own``: the turn itself pays, ``last``: the episode's last turn pays for all.

    Raises:
        ValueError: ``at`` is something else, or the coefficient is below 0.
    """

    coefficient: float = 0.01
    at: str = OWN

    def __post_init__(self) -> None:
        in_range(0, coefficient=self.coefficient)
        if self.at not in (OWN, LAST):
            raise ValueError(f"at={self.at} must be {OWN} or {LAST}")

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        prices = [-self.coefficient * self.at_fault(turn) for turn in view.episode.turns]
        return view.plus(prices) if self.at == OWN else view.plus_last(sum(prices))

    @abc.abstractmethod
    def at_fault(self, turn: PlayedTurn) -> bool: ...


@dataclass
class InvalidAction(Penalty):
    """For what the environment did not understand, an answer without any action included (verl-agent's, released code: 0.1 beside
    10 for a win)."""

    def at_fault(self, turn: PlayedTurn) -> bool:
        return not turn.valid


@dataclass
class Format(Penalty):
    """For answers from which no action could be read; beside ``invalid_action`` such a turn pays both."""

    def at_fault(self, turn: PlayedTurn) -> bool:
        return not turn.parsed
