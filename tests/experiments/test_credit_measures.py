"""The measures of experiments/credit_quality in Markov chains over a few states, whose values are
known: the last state but one is won and the last is lost. A task has a group of episodes."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from turngrid.experiments.credit_quality.intervals import (
    Interval,
    Statistic,
    Sums,
    cosine,
    of_truth,
    rated,
    statistics_of,
)
from turngrid.experiments.credit_quality.measures import Truth, demeaned, task_sums, truth

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


# ---- measures

REPETITIONS, TASKS = 200, 40
MEASURED = ("r", "r_inside", "sign", "neutral", "bias")


@cache
def episodes() -> Played:
    return play(REPETITIONS * TASKS, seed=0)


def measured(sums: dict[str, Sums], draws: int, against: str = "") -> tuple[dict, dict]:
    return rated(statistics_of(sums), against or next(iter(sums)), len(next(iter(sums.values()))["turns"]), draws)


def credits_of(played: Played) -> dict[str, np.ndarray]:
    noise = np.random.default_rng(1).standard_normal(len(played.exact))
    return {"truth": played.exact, "noise": noise, "group": played.group, "mixed": played.exact + 0.1 * noise + 0.05}


def estimates(made: Truth, credits: dict[str, np.ndarray]) -> dict[tuple[str, str], float]:
    found, _ = measured({name: task_sums(made, credit) for name, credit in credits.items()}, draws=2)
    return {(measure, name): found[measure][name].mean for measure in MEASURED for name in credits}


def test_intervals_cover_the_truth_at_their_nominal_rate() -> None:
    """Correlations: that with the exact advantages. What depends on which turns are significant:
    the estimate over all 4,000 tasks."""
    played = episodes()
    credits = credits_of(played)
    target = estimates(played.truth(0, REPETITIONS * TASKS)[0], credits)
    exact = estimates(played.exact_truth(), credits)
    target |= {key: value for key, value in exact.items() if key[0] in ("r", "r_inside")}
    assert target["r", "truth"] == pytest.approx(1) == target["r_inside", "truth"]
    hits = dict.fromkeys(target, 0)
    for first in range(0, REPETITIONS * TASKS, TASKS):
        part, turns = played.truth(first, first + TASKS)
        found, _ = measured({name: task_sums(part, credit[turns]) for name, credit in credits.items()}, draws=250)
        for (measure, name), value in target.items():
            interval = found[measure][name]
            assert measure != "sign" or 0 <= interval.low <= interval.high <= 1, "a share"
            hits[measure, name] += interval.low - 1e-9 <= value <= interval.high + 1e-9
    rare = {("sign", "truth")}  # nearly all right: the few tasks with a mistake make the interval
    wrong = {key: count for key, count in hits.items() if count < (0.85 if key in rare else 0.9) * REPETITIONS}
    assert not wrong
    assert sum(hits.values()) / len(hits) < 0.985 * REPETITIONS  # nor are they wider than they say


def test_noise_and_constant_credit_are_rated_as_the_docs_say() -> None:
    played = episodes()
    exact, credits = played.exact_truth(), credits_of(played)
    found = estimates(exact, credits)
    of_noise = [found[measure, "noise"] for measure in ("r", "r_inside", "neutral")]
    assert of_noise == pytest.approx([0, 0, 1], abs=0.02) and found["sign", "noise"] == pytest.approx(0.5, abs=0.01)
    assert found["r_inside", "group"] == 0 == found["bias", "noise"].__round__(1)
    constant = played.score[played.episode] - played.value[np.searchsorted(played.episode, played.episode)]  # R - V(s0)
    sums = task_sums(exact, constant / np.bincount(played.episode)[played.episode])
    best, ceiling = measured({"best": sums}, draws=2)[0]["r"]["best"], of_truth(sums, draws=2)["ceiling"]
    assert best.mean == pytest.approx(ceiling.mean, abs=1e-9)


def test_what_is_known_of_the_truth_itself() -> None:
    """Reliability: the correlation of two estimates; grows with k as Spearman and Brown say."""
    played, other = episodes(), play(REPETITIONS * TASKS, seed=0, k=8)
    made, _ = played.truth(0, REPETITIONS * TASKS)
    found = of_truth(task_sums(made, played.group), draws=2)
    assert found["reliability"].mean == pytest.approx(np.corrcoef(made.advantage, played.exact)[0, 1] ** 2, abs=0.01)
    half = of_truth(task_sums(other.truth(0, REPETITIONS * TASKS)[0], other.group), draws=2)["reliability"].mean
    assert 2 * half / (1 + half) == pytest.approx(found["reliability"].mean, abs=0.01)  # k is 8, and 16


def test_paired_differences_are_narrower_than_the_methods_own_intervals() -> None:
    made, turns = episodes().truth(0, TASKS)
    sums = {name: task_sums(made, credit[turns]) for name, credit in credits_of(episodes()).items()}
    sums["also"] = task_sums(made, episodes().exact[turns] + 1e-3)
    alone, found = (table["r"]["also"] for table in measured(sums, 2000, "truth"))
    assert abs(found.mean) < 1e-9 and found.high - found.low < 1e-9 < alone.high - alone.low
    assert measured(sums, 2000, "noise")[1]["r"]["truth"].low > 0.8


def test_intervals_of_cosines_cover_that_of_many_batches() -> None:
    """Gradients of a game are the mean gradient and its own; the truth's are known with noise, that
    of each part of its continuations."""
    draw, games, size = np.random.default_rng(0), 20, 40
    mean = 0.15 * draw.standard_normal(size)
    batches = []
    for _ in range(REPETITIONS):
        true = mean + draw.standard_normal((games, size))
        parts = true[:, None] + 1.5 * draw.standard_normal((games, 4, size))
        noise = draw.standard_normal((games, size))
        batches.append((true, parts, {"truth": true, "noise": noise, "mixed": true + noise}))
    for name in ("truth", "noise", "mixed"):
        pairs = [(made[name].sum(0), true.sum(0)) for true, _, made in batches]
        cross, own, of_true = (np.mean([pair[i] @ pair[j] for pair in pairs]) for i, j in ((0, 1), (0, 0), (1, 1)))
        target = cross / np.sqrt(own * of_true)
        found = [interval_of(cosine(made[name], parts), games) for _, parts, made in batches]
        assert np.mean([one.low <= target <= one.high for one in found]) > 0.9
        assert np.median([one.mean for one in found]) == pytest.approx(target, abs=0.05)


def interval_of(statistic: Statistic, games: int) -> Interval:
    return rated({"gradient": {"it": statistic}}, "it", games, draws=250)[0]["gradient"]["it"]


def test_advantages_that_do_not_add_up_are_refused() -> None:
    values = [np.array([0.0, 1.0]), np.array([1.0, 1.0])]
    made = truth([(0, values, 1.0), (0, values[:1], 0.0)])
    assert made.advantage.tolist() == [0.5, 0.0, -0.5]
    with pytest.raises(ValueError, match="do not add up"):
        Truth(made.task, made.episode, made.before[[1, 0, 2]], made.after, made.score)
    assert demeaned(np.array([1.0, 3.0, 5.0]), np.array([0, 0, 1])).tolist() == [-1, 1, 0]
