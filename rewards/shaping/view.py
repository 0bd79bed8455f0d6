"""Input and output of a reward transform (docs/reward.md).

A transform is a dataclass whose fields are its settings; numbers may follow a schedule. It is
called in the process that runs the episode, one episode at a time, before groups are compared. It
must depend only on its argument, so that a resumed run computes the same numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from turngrid.rewards.reward import on_last

TRAINED = "trained"  # the reward that is trained on: the chosen one, then the transforms' result


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
    """A reward transform.

    It may have two optional attributes. ``reads`` lists the rewards that it reads in the view
    besides ``trained``. ``logged(view)`` returns numbers of the episode for the log, by name, given
    the view that the transform was called with.
    """

    def __call__(self, view: RewardView) -> Mapping[str, Sequence[float]]:
        """Return the changed rewards, by name, one number per turn.

        Rewards other than ``trained`` are recorded, and later transforms see them.
        """
