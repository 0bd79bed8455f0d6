"""Shares, spreads and stratified batches by hand-worked numbers; the games of a mixture from the
real catalogue."""

import math
import random
from collections import Counter
from pathlib import Path

import pytest

from turngrid.config.compose import compose
from turngrid.envs.games.catalogue import Catalogue, games_hash
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskError
from turngrid.tasks.evaluation_sets import prepare_evaluation_sets
from turngrid.tasks.mixture import in_batch, mixture_name, shares, spread, task_weights
from turngrid.tasks.run import Run
from turngrid.tasks.splits import list_games, prepare_tasks, read_tasks, task_file


def test_a_list_means_equal_weights_and_none_the_task_alone() -> None:
    assert task_weights({"task": "a", "tasks": None}) == {"a": 1.0}
    assert task_weights({"task": "a", "tasks": ["b", "c"]}) == {"b": 1.0, "c": 1.0}
    assert task_weights({"task": "a", "tasks": {"b": 1, "c": 3}}) == {"b": 1.0, "c": 3.0}


@pytest.mark.parametrize("tasks", [[], {}, "b", ["b", "b"], {"b": 0}, {"b": True}, {"b": None}, {"b": float("nan")}])
def test_what_is_no_mixture_is_refused_by_name(tasks: object) -> None:
    with pytest.raises(TaskError, match=r"^env\.tasks[^\n]*$"):
        task_weights({"task": "a", "tasks": tasks})


def test_largest_remainders_by_hand() -> None:
    """The textbook case, 100,000 votes for 10 seats: quotas 4.7, 1.6, 1.59, 1.2, 0.6 and 0.31 have
    the whole parts 4, 1, 1, 1, 0 and 0; the three seats left go to the remainders .7, .6 and .6."""
    votes = {"yellow": 47_000, "white": 16_000, "red": 15_900, "green": 12_000, "blue": 6_000, "pink": 3_100}
    assert shares(votes, 10) == {"yellow": 5, "white": 2, "red": 1, "green": 1, "blue": 1, "pink": 0}
    assert shares({"a": 0.7, "b": 0.3}, 10) == {"a": 7, "b": 3}
    assert list(shares(dict.fromkeys("abcdef", 1), 1000).values()) == [167, 167, 167, 167, 166, 166]


def test_spread_by_hand() -> None:
    """The i-th of n lies at (2i + 1) / 2n: thirds of b at 1/6, 1/2, 5/6, halves of a at 1/4,
    3/4."""
    assert spread({"a": 2, "b": 3}) == ["b", "a", "b", "a", "b"]
    assert spread({"a": 2, "b": 2}) == ["a", "b", "a", "b"]
    assert spread({"a": 1, "b": 0}) == ["a"]


@pytest.mark.parametrize("trial", range(20))
def test_proportions_hold_in_every_batch_and_exactly_over_a_cycle(trial: int) -> None:
    """Also where the batch does not divide the games, and where there are fewer games than places
    in a batch."""
    draw = random.Random(trial)
    games = {f"task {i}": draw.randint(1, 60) for i in range(draw.randint(1, 6))}
    total, size = sum(games.values()), draw.randint(1, 100)
    cycle = total // math.gcd(total, size)
    seen: Counter[str] = Counter()
    for index in range(cycle):
        counts = in_batch(games, size, index, seed=trial)
        assert sum(counts.values()) == size
        for task, count in counts.items():
            assert games[task] * size // total <= count <= -(-games[task] * size // total)
        seen.update(counts)
    assert all(seen[task] * total == games[task] * size * cycle for task in games)
    assert total % size or cycle * size == total  # one epoch where it divides


def test_the_seed_moves_the_batches_but_not_their_shares() -> None:
    games = {"a": 7, "b": 9}
    plans = [[tuple(in_batch(games, 4, i, seed).items()) for i in range(4)] for seed in range(6)]
    assert len(set(map(tuple, plans))) > 1
    assert all(sum(dict(counts)["a"] for counts in plan) == 7 for plan in plans)
    assert plans[0] == [tuple(in_batch(games, 4, i + 4, 0).items()) for i in range(4)]


def test_names_of_mixtures_are_short() -> None:
    assert mixture_name({"w2-o3-q4": 1.0}) == "w2-o3-q4"
    assert mixture_name({"w2-o3-q4": 1.0, "w4-o6-q8": 1.0}) == "w2-o3-q4+w4-o6-q8"
    assert mixture_name({"w2-o3-q4": 3.0, "w4-o6-q8": 1.0}) == "3xw2-o3-q4+1xw4-o6-q8"
    assert mixture_name(dict.fromkeys([f"w{i}-o{i}-q4" for i in range(1, 7)], 1.0)) == "mix6"


def test_games_of_a_mixture_are_disjoint_in_proportion_and_spread() -> None:
    """w1-o1-q1 has so few different games that seeds repeat them, in other splits too."""
    catalogue = Catalogue(make_environment("textworld"))
    counts = {"test": 3, "demonstrations": 3, "train": 6}
    made = list_games(catalogue, {"w1-o2-q1": 1, "w2-o3-q1": 2}, counts, "sparse")
    games = [game for listing in made.values() for game in listing.tasks]
    assert len({game.fingerprint for game in games}) == len(games) == 12
    assert [game.task for game in made["train"].tasks] == ["w2-o3-q1", "w1-o2-q1", "w2-o3-q1"] * 2
    assert Counter(game.task for game in made["test"].tasks) == {"w1-o2-q1": 1, "w2-o3-q1": 2}
    alone = catalogue.tasks("w1-o2-q1", "test", 1)
    assert [game.sha256 for game in made["test"].tasks if game.task == "w1-o2-q1"] == [game.sha256 for game in alone]


def test_an_evaluation_set_of_the_mixture_is_the_same_with_and_without_a_run(tmp_path: Path) -> None:
    """``turngrid.experiments.evaluate`` lists it alone, a run beside its training games."""
    config = compose(["env.tasks={w1-o2-q1: 1, w2-o3-q1: 2}", "eval.games=3", "budget=rl_only", "budget.rl_steps=1"])
    config.data.train_batch_size = 3
    prepare_evaluation_sets(Run(config, tmp_path / "alone"), also_own=True)
    prepare_tasks(Run(config, tmp_path / "run"))
    alone, beside = (read_tasks(task_file(tmp_path / name, "test")) for name in ("alone", "run"))
    assert [game.task for game in alone] == ["w2-o3-q1", "w1-o2-q1", "w2-o3-q1"]
    assert games_hash(alone) == games_hash(beside)
