"""Curricula: tasks by step (``phases``, ``threshold``), turns by step (``horizon``), games drawn.

Steps are counted from 1, as in ``metrics.jsonl``. The horizon follows ScalingInter-RL (AgentGym-RL,
arXiv 2509.08755): few turns at first, more from stated steps on. Its released recipes have 10, 20
and 30 turns, 100 steps each.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from turngrid.rollouts.seeds import derive_seed
from turngrid.tasks.mixture import in_batch, spread

THIRDS = 3


@dataclass(frozen=True)
class Phase:
    """``tasks`` are trained from ``first_step`` on; ``number`` counts from 1."""

    number: int
    first_step: int
    tasks: tuple[str, ...]


class Curriculum:
    """Decides the phase of each step; here phases begin at stated steps.

    Subclasses may decide by results; checkpoints keep their ``state``.
    """

    def __init__(self, phases: Mapping[int, Sequence[str]]) -> None:
        self._phases = [Phase(i, int(step), tuple(phases[step])) for i, step in enumerate(sorted(phases), start=1)]

    def phase(self, step: int) -> Phase:
        return [phase for phase in self._phases if phase.first_step <= step][-1]

    def observe(self, step: int, results: Mapping[str, tuple[int, int]]) -> None:
        """Receive the numbers of a step's episodes by task, as (won, all)."""

    def state(self) -> dict[str, Any]:
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore ``state``; this class has none."""


@dataclass
class Thresholded(Curriculum):
    """One task after the other: the next begins when ``threshold`` of the episodes are won."""

    tasks: Sequence[str]  # from simple to complex
    threshold: float  # success rate of the newest task over the last ``window`` steps
    window: int  # a task is judged only after so many steps
    keep: bool = False  # continue to train on earlier tasks
    success: float = 0.0  # of the newest task over the window at the last observed step
    _number: int = 1
    _first_step: int = 1
    _recent: list[tuple[int, int]] = field(default_factory=list)

    def phase(self, step: int) -> Phase:
        first = 0 if self.keep else self._number - 1
        return Phase(self._number, self._first_step, tuple(self.tasks[first : self._number]))

    def observe(self, step: int, results: Mapping[str, tuple[int, int]]) -> None:
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
    if node["name"] == "threshold":
        return Thresholded(tasks, node["threshold"], node["window"], node["keep"])
    return Curriculum(node["phases"] or {1: tasks})


def turns_at(horizon: Mapping[int, int] | None, step: int, otherwise: int) -> int:
    """Return the turns of a step's episodes: the newest entry of ``horizon``, or ``otherwise``."""
    begun = [first for first in horizon or () if first <= step]
    return int(horizon[max(begun)]) if horizon and begun else int(otherwise)


def equal_phases(tasks: Sequence[str], steps: int) -> dict[int, list[str]]:
    """Return phases of one task each, of equal length.

    >>> equal_phases(["a", "b"], 25)
    {1: ['a'], 13: ['b']}
    """
    return {1 + steps * index // len(tasks): [task] for index, task in enumerate(tasks)}


def horizon_in_thirds(max_turns: int, steps: int) -> dict[int, int]:
    """Return one, two and three thirds of the turns, a third of the steps each (ScalingInter-RL).

    >>> horizon_in_thirds(12, 24)
    {1: 4, 9: 8, 17: 12}
    """
    return {1 + steps * part // THIRDS: -(-max_turns * (part + 1) // THIRDS) for part in range(THIRDS)}


class Draws:
    """Draws the games of each step, ``size`` of them, one at a time; ``games`` has indices by task.

    Draws depend on the seed, the step and ``state`` only, so a resumed run equals an unbroken one.
    A game that replaces a failed one is of the same task.
    """

    def __init__(self, games: Mapping[str, Sequence[int]], size: int, order: Curriculum, seed: int = 0) -> None:
        self._games, self._size, self._seed = games, size, seed
        self.curriculum = order
        self._drawn = dict.fromkeys(games, 0)
        self._tasks: list[str] = []
        self._position = 0
        self._solved: dict[int, float] = {}
        self.left: set[int] = set()  # games that are drawn no more

    def begin(self, step: int) -> Phase:
        """Plan the batch of a step and discard the rest of the step before."""
        phase = self.curriculum.phase(step)
        games = {task: len(self._games[task]) for task in phase.tasks}
        self._tasks = spread(in_batch(games, self._size, step - phase.first_step, self._seed))
        self._position = 0
        return phase

    def next(self) -> int:
        task = self._tasks[self._position % self._size]
        self._position += 1
        while (game := self._next_of(task)) in self.left:
            pass
        return game

    def _next_of(self, task: str) -> int:
        epoch, position = divmod(self._drawn[task], len(self._games[task]))
        if not position:
            self._leave_out(task)
        self._drawn[task] += 1
        return self._games[task][epoch_order(self._seed, task, epoch, len(self._games[task]))[position]]

    def observe(self, shares: Mapping[int, float], least: float) -> None:
        """Receive each game's share of solved samples in a step.

        Games with a share of ``least`` or more are left out when their task's next epoch begins.
        The most solved ones go first, and a task keeps as many games as a step has.
        """
        others = {game: share for game, share in self._solved.items() if game not in shares}
        self._solved = others | {game: share for game, share in shares.items() if share >= least}

    def _leave_out(self, task: str) -> None:
        held = [game for game in self._games[task] if game not in self.left]
        solved = sorted((game for game in held if game in self._solved), key=lambda game: (-self._solved[game], game))
        self.left |= {*solved[: max(0, len(held) - self._size)]}

    def state(self) -> dict[str, Any]:
        own = {"solved": dict(self._solved), "left": sorted(self.left)}
        return {"drawn": dict(self._drawn), "curriculum": self.curriculum.state(), **own}

    def load(self, state: Mapping[str, Any]) -> None:
        self._drawn = dict(state["drawn"])
        self.curriculum.load(state["curriculum"])
        self._solved, self.left = dict(state["solved"]), {*state["left"]}


@cache
def epoch_order(seed: int, task: str, epoch: int, games: int) -> tuple[int, ...]:
    """Return an epoch's order of a task's games; it differs by epoch and task."""
    return tuple(random.Random(derive_seed("games", seed, task, epoch)).sample(range(games), games))
