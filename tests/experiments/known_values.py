"""Environments whose values are known: Markov chains over a few states, of which the last but one
is won and the last is lost.

Everything is drawn for many repetitions at once; a repetition has tasks, a task a group of
episodes.
"""

from dataclasses import dataclass

import numpy as np

from turngrid.experiments.credit_quality.measures import Truth

LENGTH = 4


def corridors(draw: np.random.Generator, tasks: int) -> np.ndarray:
    """(tasks, LENGTH + 2, LENGTH + 2): a step towards the goal with a chance that differs from task
    to task, else one back."""
    ahead = draw.uniform(0.35, 0.85, tasks)
    moves = np.tile(np.eye(LENGTH + 2), (tasks, 1, 1))
    moves[:, range(LENGTH), range(LENGTH)] = 0
    for place in range(LENGTH):
        moves[:, place, place + 1] += ahead
        moves[:, place, max(place - 1, 0)] += 1 - ahead
    return moves


def values(moves: np.ndarray, turns: int) -> np.ndarray:
    """(turns + 1, ..., states): the chance to win with so many turns left."""
    won = np.zeros(moves.shape[:-1])
    won[..., -2] = 1
    found = [won]
    for _ in range(turns):
        found.append(np.einsum("...ij,...j->...i", moves, found[-1]))
    return np.stack(found)


@dataclass(frozen=True)
class Played:
    """One entry a turn of all repetitions, but for ``score``, (episodes,). ``value`` and
    ``next_value``: exact ones before and after it; ``before`` and ``after``: of its k
    continuations, (N, k). ``group``: its episode's score less the mean of its group's."""

    task: np.ndarray
    episode: np.ndarray
    group: np.ndarray
    score: np.ndarray
    value: np.ndarray
    next_value: np.ndarray
    before: np.ndarray
    after: np.ndarray

    @property
    def exact(self) -> np.ndarray:
        return self.next_value - self.value

    def truth(self, first: int, last: int) -> tuple[Truth, np.ndarray]:
        """As it is estimated from some tasks, and which turns they are."""
        chosen = np.flatnonzero((self.task >= first) & (self.task < last))
        return self._truth(chosen, self.before, self.after), chosen

    def exact_truth(self) -> Truth:
        """Of all tasks, as infinitely many continuations would give it."""
        both = [np.tile(column[:, None], 2) for column in (self.value, self.next_value)]
        return self._truth(np.arange(len(self.task)), *both)

    def _truth(self, chosen: np.ndarray, before: np.ndarray, after: np.ndarray) -> Truth:
        _, task = np.unique(self.task[chosen], return_inverse=True)
        episodes, episode = np.unique(self.episode[chosen], return_inverse=True)
        return Truth(task, episode, before[chosen], after[chosen], self.score[episodes])


def play(tasks: int, seed: int, k: int = 16, samples: int = 8, turns: int = 6) -> Played:
    """Episodes from state 0. Equal prefixes of a task share their k continuations, each of which
    wins by a draw of its own."""
    draw = np.random.default_rng(seed)
    moves = corridors(draw, tasks)
    value, states = values(moves, turns), moves.shape[-1]
    cumulative = moves.cumsum(-1)
    at = np.zeros((tasks, samples), dtype=int)
    number = np.arange(tasks)[:, None]
    prefix = np.zeros((tasks, samples), dtype=np.int64)
    path, prefixes = [at], [prefix]
    for _ in range(turns):
        at = (draw.random((tasks, samples, 1)) > cumulative[number, at]).sum(-1).clip(max=states - 1)
        prefix = prefix * (states + 1) + at + 1
        path.append(at)
        prefixes.append(prefix)
    state, history = np.stack(path, -1), np.stack(prefixes, -1)  # (tasks, samples, turns + 1)
    left = turns - np.arange(turns + 1)
    exact = value[left, number[..., None], state]
    one = number[..., None] * (states + 1) ** (turns + 1) + history
    which = np.unique(one, return_inverse=True)[1].reshape(state.shape)
    chance = np.zeros(which.max() + 1)
    chance[which] = exact
    continued = (draw.random((len(chance), k)) < chance[:, None]).astype(float)
    alive = state[..., :-1] < states - 2
    task, sample, turn = np.nonzero(alive)
    score = (state[..., -1] == states - 2).astype(float)
    last = turn + 1 == alive.sum(-1)[task, sample]
    return Played(
        task,
        task * samples + sample,
        (score - score.mean(1, keepdims=True))[task, sample],
        score.reshape(-1),
        exact[task, sample, turn],
        np.where(last, score[task, sample], exact[task, sample, turn + 1]),
        continued[which[task, sample, turn]],
        np.where(last[:, None], score[task, sample, None], continued[which[task, sample, turn + 1]]),
    )
