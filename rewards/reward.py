"""From what happened in an episode to one number a turn.

The trained reward is placed on each turn's last sampled token; what the numbers mean is decided here, from the turns'
score changes and from whether the game was won (never from whether it was over).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class ScoredTurn(Protocol):
    """The part of ``rollouts.episode.Turn`` that rewards read: the score's change in the game's own points."""

    @property
    def score_delta(self) -> float: ...

    @property
    def valid(self) -> bool: ...


class Reward(Protocol):
    """``turn_rewards`` returns one number a turn, in the turns' order; it looks at finished episodes only.

    ``max_score`` is the score that a perfect game reaches, in the game's own points.
    """

    name: str

    def turn_rewards(self, turns: Sequence[ScoredTurn], won: bool, max_score: float) -> list[float]: ...
