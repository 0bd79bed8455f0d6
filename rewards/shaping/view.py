"""What a reward transform is called with, and what it returns (docs/reward.md).

A transform is a dataclass: its fields are its settings, and any number among them may follow a schedule. It is called in the
process that plays the episode, one episode at a time, before groups are compared; it must depend on nothing but what it is
called with, so that a run that was killed goes on with the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rewards.reward import ScoredTurn

TRAINED = "trained"  # the reward that is trained on: the chosen one, then what the transforms make of it
OWN, LAST = "own", "last"


class PlayedTurn(ScoredTurn, Protocol):
    """The part of ``rollouts.episode.Turn`` that transforms read, besides what rewards do.

    ``parsed`` is False where no action could be read from the answer. A turn whose ``prompt_ids`` are not empty begins a row of
    its own (``env.window_turns``); ``action_ids`` and ``context_ids`` are its tokens there. ``label`` and ``thought`` are what the prompt
    form read (``rollouts.prompt_forms``). A ``summary`` is none of the environment's.
    """

    @property
    def parsed(self) -> bool: ...

    @property
    def summary(self) -> bool: ...

    @property
    def prompt_ids(self) -> Sequence[int]: ...

    @property
    def action_ids(self) -> Sequence[int]: ...

    @property
    def context_ids(self) -> Sequence[int]: ...

    @property
    def label(self) -> str: ...

    @property
    def thought(self) -> str: ...


class PlayedEpisode(Protocol):
    @property
    def turns(self) -> Sequence[PlayedTurn]: ...

    @property
    def won(self) -> bool: ...


@dataclass(frozen=True)
class RewardView:
    """A finished episode.

    Attributes:
        episode: never without a turn.
        rewards: by name one number a turn: ``trained``, the chosen reward under its own name, and those that methods read.
        step: the training step, from 1, in which the episode's prompt was handed out.
    """

    episode: PlayedEpisode
    rewards: Mapping[str, Sequence[float]]
    step: int

    def plus(self, added: Sequence[float]) -> dict[str, list[float]]:
        """The trained reward with so much added to each turn."""
        return {TRAINED: [value + more for value, more in zip(self.rewards[TRAINED], added, strict=True)]}

    def plus_last(self, added: float) -> dict[str, list[float]]:
        """The trained reward with so much added to the last turn."""
        return self.plus([0.0] * (len(self.episode.turns) - 1) + [added])


class Transform(Protocol):
    """Two things are optional. ``reads``: names of the rewards that it wants in the view besides ``trained``. ``told(view)``:
    numbers of the episode by name, for the log; it gets the view that the transform itself was called with.
    """

    def __call__(self, view: RewardView) -> Mapping[str, Sequence[float]]:
        """The rewards that it changes, by name, one number a turn. Those of a name that is not ``trained`` are seen by the
        transforms after it and recorded."""
