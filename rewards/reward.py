"""From what happened in an episode to one number a turn.

The trained reward is placed on each turn's last sampled token; what the numbers mean is decided here, from the turns'
score changes and from whether the game was won (never from whether it was over).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class NoSettings:
    """A reward without settings of its own."""


class ScoredTurn(Protocol):
    """The part of ``rollouts.episode.Turn`` that rewards read.

    ``score_delta`` is the score's change in the game's own points; ``info`` is what the environment reports besides,
    by name.
    """

    @property
    def score_delta(self) -> float: ...

    @property
    def valid(self) -> bool: ...

    @property
    def info(self) -> Mapping[str, Any]: ...


class Reward(Protocol):
    """``turn_rewards`` returns one number a turn, in the turns' order; it looks at finished episodes only.

    ``max_score`` is the score that a perfect game reaches, in the game's own points.

    Three things are optional. ``Settings``, a frozen dataclass in which every field has a default, types the keys
    of the ``turn_reward`` node that this reward adds; it is handed to the constructor. ``blocking = True`` says that
    the reward waits for somebody else (a judge over the network), so that it is asked in a thread. A method ``problem()``
    says what is wrong with its settings ("" if nothing is), so that a run is refused before it starts.
    """

    name: str

    def turn_rewards(self, turns: Sequence[ScoredTurn], won: bool, max_score: float) -> list[float]: ...


def one_a_turn(who: str, values: Iterable[float], turns: int) -> list[float]:
    """Rewards as ``who`` gave them. Raises: ValueError: there are more or fewer than turns, or one is NaN or infinite, of which
    the whole batch's advantages would be."""
    given = [float(value) for value in values]
    if len(given) != turns:
        raise ValueError(f"{who} gave {len(given)} rewards to {turns} turns")
    if wrong := next((number for number, value in enumerate(given, 1) if not math.isfinite(value)), None):
        raise ValueError(f"{who} gave {given[wrong - 1]} to turn {wrong}: a reward must be a finite number")
    return given
