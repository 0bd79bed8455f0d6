"""Penalties for turns without effect."""

import abc
from dataclasses import dataclass

from turngrid.rewards.declared import Card, Method, number, word
from turngrid.rewards.shaping.view import PlayedTurn, RewardView


@dataclass(kw_only=True)
class Penalty(Method, abc.ABC):
    """``r_t -= coefficient`` for each turn at fault; with ``at=last`` the last turn gets the
    total.
    """

    coefficient: float = number(0)
    at: str = word("own", "last")

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        prices = [-self.coefficient * self.at_fault(turn) for turn in view.episode.turns]
        return view.plus(prices) if self.at == "own" else view.plus_last(sum(prices))

    @abc.abstractmethod
    def at_fault(self, turn: PlayedTurn) -> bool: ...


@dataclass(kw_only=True)
class InvalidAction(Penalty):
    """A penalty for turns that the environment did not understand, or that have no action."""

    card = Card(
        "lowers the reward of a turn by `coefficient` if the environment did not understand the action",
        paper="verl-agent",
        source="code",
        ours="0.01, a win being 1 (there 0.1 and 10)",
    )

    def at_fault(self, turn: PlayedTurn) -> bool:
        return not turn.valid


@dataclass(kw_only=True)
class Format(Penalty):
    """A penalty for answers from which no action could be read."""

    card = Card("lowers the reward of an answer without an action by `coefficient`; `invalid_action` charges it too")

    def at_fault(self, turn: PlayedTurn) -> bool:
        return not turn.parsed
