"""The protocol of rewards: from a finished episode to one number per turn.

The trained reward is placed on each turn's last sampled token. A reward reads the turns' score
changes and whether the game was won, never whether it was over.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol


class ScoredTurn(Protocol):
    """The part of ``turngrid.rollouts.episode.Turn`` that rewards read.

    ``score_delta`` is the score's change in the game's points. ``info`` is what else the
    environment reports, by name.
    """

    score_delta: float
    valid: bool

    @property
    def info(self) -> Mapping[str, Any]: ...


class Reward(Protocol):
    """A reward; ``turn_rewards`` returns one number per turn of a finished episode.

    ``max_score`` is the score of a perfect game, in the game's points. Optional attributes:

    - ``Settings``: a frozen dataclass of the keys that the reward adds to the node ``turn_reward``.
      The constructor gets it.
    - ``blocking = True``: the reward waits for an endpoint, so it runs in a thread.
    - ``problem()``: returns what is wrong with the settings ("" if nothing is), so that the run is
      refused.
    """

    name: str

    def turn_rewards(self, turns: Sequence[ScoredTurn], won: bool, max_score: float) -> list[float]: ...


def on_last(turns: Sequence[ScoredTurn], value: float) -> list[float]:
    """Return rewards of which only the last turn's is not 0."""
    return [0.0] * (len(turns) - 1) + [value] * bool(turns)


def one_a_turn(who: str, values: Iterable[float], turns: int) -> list[float]:
    """Return the rewards as floats.

    Raises:
        ValueError: their number is not that of the turns, or one is NaN or infinite, which would
            spread over the batch.
    """
    rewards = [float(value) for value in values]
    if len(rewards) != turns:
        raise ValueError(f"{who} gave {len(rewards)} rewards to {turns} turns")
    if wrong := next((number for number, value in enumerate(rewards, 1) if not math.isfinite(value)), None):
        raise ValueError(f"{who} gave {rewards[wrong - 1]} to turn {wrong}: a reward must be a finite number")
    return rewards
