"""What is played when: which tasks at which step (``phases``, ``threshold``), and for how many turns (``horizon``).

Steps are counted from 1, as in ``metrics.jsonl``. The horizon follows ScalingInter-RL (AgentGym-RL, arXiv 2509.08755):
few turns at first, more from stated steps on. Its released recipes have 10, 20 and 30 turns, 100 steps each.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from rollouts.seeds import derive_seed
from tasks.mixture import StratifiedBatches, spread

THIRDS = 3


@dataclass(frozen=True)
class Phase:
    """``tasks`` are played from ``first_step`` on; ``number`` counts from 1."""

    number: int
    first_step: int
    tasks: tuple[str, ...]


class Curriculum:
    """Decides the phase of each step: phases begin at stated steps. Subclasses may go by what happened; all that one remembers is in
    ``state``, which is kept in checkpoints."""

    def __init__(self, phases: Mapping[int, Sequence[str]]) -> None:
        self._phases = [Phase(i, int(step), tuple(phases[step])) for i, step in enumerate(sorted(phases), start=1)]

    def phase(self, step: int) -> Phase:
        return [phase for phase in self._phases if phase.first_step <= step][-1]

    def observe(self, step: int, results: Mapping[str, tuple[int, int]]) -> None:
        """``results``: (won, played) episodes of the step by task."""

    def state(self) -> dict[str, Any]:
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """Nothing to remember."""


@dataclass
class Thresholded(Curriculum):
    """One task after the other: on to the next where ``threshold`` of the newest task's episodes were won.

    Args:
        tasks: from simple to complex.
        threshold: share of the episodes of the last ``window`` steps, all taken together.
        window: steps; a new task is looked at only once it has been played for so many.
        keep: go on playing the tasks before.
        success: of the newest task over the window, as of the last step that was observed.
    """

    tasks: Sequence[str]
    threshold: float
    window: int
    keep: bool = False
    success: float = 0.0
    _number: int = 1
    _first_step: int = 1
    _recent: list[tuple[int, int]] = field(default_factory=list)

    def phase(self, step: int) -> Phase:
        first = 0 if self.keep else self._number - 1
        return Phase(self._number, self._first_step, tuple(self.tasks[first : self._number]))

    def observe(self, step: int, results: Mapping[str, tuple[int, int]]) -> None:
        """``success`` is what the window then says."""
        self._recent = [*self._recent, results.get(self.tasks[self._number - 1], (0, 0))][-self.window :]
        played = sum(games for _, games in self._recent)
        self.success = sum(won for won, _ in self._recent) / played if played else 0.0
        if len(self._recent) == self.window and self.success >= self.threshold and self._number < len(self.tasks):
            self._number, self._first_step, self._recent = self._number + 1, step + 1, []

    def state(self) -> dict[str, Any]:
        return {"number": self._number, "first_step": self._first_step, "recent": list(self._recent)}

    def load(self, state: Mapping[str, Any]) -> None:
        self._number, self._first_step = state["number"], state["first_step"]
        self._recent = [(won, played) for won, played in state["recent"]]


def curriculum(node: Mapping[str, Any], tasks: Sequence[str]) -> Curriculum:
    """What the ``curriculum`` node asks for, over the tasks of the mixture."""
    if node["name"] == "threshold":
        return Thresholded(tasks, node["threshold"], node["window"], node["keep"])
    return Curriculum(node["phases"] or {1: tasks})


def turns_at(horizon: Mapping[int, int] | None, step: int, otherwise: int) -> int:
    """Turns that an episode of this step may have: those of the last entry of ``horizon`` that has begun."""
    begun = [first for first in horizon or () if first <= step]
    return int(horizon[max(begun)]) if horizon and begun else int(otherwise)


def equal_phases(tasks: Sequence[str], steps: int) -> dict[int, list[str]]:
    """One task after the other, for equal parts of the training.

    >>> equal_phases(["a", "b"], 25)
    {1: ['a'], 13: ['b']}
    """
    return {1 + steps * place // len(tasks): [task] for place, task in enumerate(tasks)}


def horizon_in_thirds(max_turns: int, steps: int) -> dict[int, int]:
    """A third of the turns for a third of the steps, then two thirds, then all: the proportions of ScalingInter-RL.

    >>> horizon_in_thirds(12, 24)
    {1: 4, 9: 8, 17: 12}
    """
    return {1 + steps * part // THIRDS: -(-max_turns * (part + 1) // THIRDS) for part in range(THIRDS)}


class Draws:
    """Hands out games, one at a time, step by step.

    Everything follows from the seed, the step and ``state``, so that a run goes on from any step as if unbroken. A game
    that replaces a failed one is the next of the same place's task.

    Args:
        games: task -> the numbers of its games in the data set.
        size: games a step.
        order: decides which tasks a step plays.
    """

    def __init__(self, games: Mapping[str, Sequence[int]], size: int, order: Curriculum, seed: int = 0) -> None:
        self._games, self._size, self._seed = games, size, seed
        self.curriculum = order
        self._drawn = dict.fromkeys(games, 0)
        self._places: list[str] = []
        self._place = 0

    def begin(self, step: int) -> Phase:
        """Plan the batch of a step; what was left of the step before is forgotten."""
        phase = self.curriculum.phase(step)
        batches = StratifiedBatches({task: len(self._games[task]) for task in phase.tasks}, self._size, self._seed)
        self._places = spread(batches.counts(step - phase.first_step))
        self._place = 0
        return phase

    def next(self) -> int:
        """The number of the next game of this step."""
        task = self._places[self._place % self._size]
        self._place += 1
        epoch, place = divmod(self._drawn[task], len(self._games[task]))
        self._drawn[task] += 1
        return self._games[task][epoch_order(self._seed, task, epoch, len(self._games[task]))[place]]

    def state(self) -> dict[str, Any]:
        return {"drawn": dict(self._drawn), "curriculum": self.curriculum.state()}

    def load(self, state: Mapping[str, Any]) -> None:
        self._drawn = dict(state["drawn"])
        self.curriculum.load(state["curriculum"])


@cache
def epoch_order(seed: int, task: str, epoch: int, games: int) -> tuple[int, ...]:
    """The order in which an epoch visits a task's games; another one for every epoch and task."""
    return tuple(random.Random(derive_seed("games", seed, task, epoch)).sample(range(games), games))
