"""The protocols of rewards, from a finished episode to one number per turn, and of transforms.

The trained reward is placed on each turn's last sampled token. A reward reads the turns' score
changes and whether the game was won, never whether it was over.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

TRAINED = "trained"  # the reward that is trained on: the chosen one, then the transforms' result


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


@dataclass(frozen=True)
class RewardView:
    """A finished episode.

    Attributes:
        episode: a ``turngrid.rollouts.episode.Episode`` of at least one turn.
        rewards: one number per turn, by name: ``trained``, the chosen reward under its own name,
            and those that methods read.
        step: the training step, from 1, in which the episode's prompt was handed out.
        plan: actions of the game's expert plan; 0 without one.
    """

    episode: Any
    rewards: Mapping[str, Sequence[float]]
    step: int
    plan: int = 0

    def plus(self, added: Sequence[float]) -> dict[str, list[float]]:
        """Return the trained reward with ``added`` on each turn."""
        return {TRAINED: [value + more for value, more in zip(self.rewards[TRAINED], added, strict=True)]}

    def plus_last(self, added: float) -> dict[str, list[float]]:
        """Return the trained reward with ``added`` on the last turn."""
        return self.plus(on_last(self.episode.turns, added))

    def only_last(self, paid: float) -> dict[str, list[float]]:
        """Return, in place of the trained reward, a number on the last turn."""
        return {TRAINED: on_last(self.episode.turns, paid)}


class Transform(Protocol):
    """A reward transform (docs/reward.md): a dataclass whose fields are its settings.

    It is called in the process that runs the episode, one episode at a time, before groups are
    compared. It must depend only on its argument, so that a resumed run computes the same numbers.

    It may have two optional attributes. ``reads`` lists the rewards that it reads in the view
    besides ``trained``. ``logged(view)`` returns numbers of the episode for the log, by name, given
    the view that the transform was called with.
    """

    def __call__(self, view: RewardView) -> Mapping[str, Sequence[float]]:
        """Return the changed rewards, by name, one number per turn.

        All are recorded, and later transforms see them.
        """
