"""gymnasium's games in words: what is shown, what an expert and a random policy earn, what cannot
be played."""

import collections
from pathlib import Path

import gymnasium
import pytest
from gymnasium.envs.toy_text.frozen_lake import generate_random_map
from gymnasium.spaces import Discrete, Text, Tuple
from made import played

from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskError

HOLES_LAKE = ["SFFF", "FHFH", "FFFH", "HFFG"]


def games(cache, count, split="test", **settings):
    environment = make_environment("gym", settings)
    return Catalogue(environment, cache).tasks(environment.settings.id, split, count, progress=False)


def steps(task, actions, **options):
    return played(make_environment("gym").env(**options), task, actions)


def test_a_lake_is_drawn_from_the_seed_and_won_by_its_expert_plan(game_cache: Path) -> None:
    for task in games(game_cache, 4):
        first, results = steps(task, task.expert_plan, legal=True)
        lake = generate_random_map(4, seed=task.seed)
        lake[0] = "P" + lake[0][1:]
        assert first.legal == ("left", "down", "right", "up")
        assert first.text == "You are at the start.\n" + "\n".join(" ".join(row) for row in lake)
        assert [result.won for result in results] == [False] * 5 + [True]
        assert [result.score_delta for result in results] == [0.0] * 5 + [1.0]
        assert results[-1].observation.text.startswith("You are at the goal.\n")
        assert task.goal.endswith("Actions: left, down, right, up.")
        assert task.max_score == 1.0


def test_a_hole_ends_the_game_and_is_no_success(game_cache: Path) -> None:
    [task] = games(game_cache, 1, kwargs={"desc": HOLES_LAKE})
    _, results = steps(task, ["right", "down"])
    assert results[0].observation.text == "You are on ice.\nS P F F\nF H F H\nF F F H\nH F F G"
    assert (results[1].terminated, results[1].lost, results[1].won) == (True, True, False)
    assert results[1].observation.text == "You are in a hole.\nS F F F\nF P F H\nF F F H\nH F F G"


def test_the_taxi_told_and_its_return_by_hand(game_cache: Path) -> None:
    """-1 a step, -10 for a pickup where nobody waits, +20 for the delivery; the best return of the
    start makes 1."""
    task = games(game_cache, 1, id="Taxi-v4")[0]
    assert task.max_score == 20 - (len(task.expert_plan) - 1) > 0
    first, results = steps(task, ["dropoff", *task.expert_plan])
    assert results[0].score_delta == -10 and results[-1].won
    assert [result.score_delta for result in results[1:]] == [-1] * (len(task.expert_plan) - 1) + [20]
    assert first.text.split("\n", 1)[1].count("T") == 1 and "The passenger waits at" in first.text
    assert "The passenger has arrived." in results[-1].observation.text
    picked = next(i for i, action in enumerate(task.expert_plan) if action == "pickup")
    assert "The passenger sits in the taxi" in results[1 + picked].observation.text


def test_the_cliff_is_one_game_without_a_dense_reward(game_cache: Path) -> None:
    cliff = make_environment("gym", {"id": "CliffWalking-v1"})
    assert cliff.rewards == ("sparse",)
    [task] = games(game_cache, 1, id="CliffWalking-v1")
    _, results = steps(task, ["right", *task.expert_plan])
    assert results[0].score_delta == -100  # over the cliff, back at the start
    assert not results[0].terminated
    assert sum(result.score_delta for result in results[1:]) == -13
    assert results[-1].won
    with pytest.raises(TaskError, match="1 games of the 2 asked for"):
        games(game_cache, 2, id="CliffWalking-v1")
    assert len(games(game_cache, 3, id="CliffWalking-v1", distinct=False)) == 3


def test_blackjack_is_won_lost_or_drawn(game_cache: Path) -> None:
    """A draw is over and not won."""
    seen = collections.Counter()
    for task in games(game_cache, 30, id="Blackjack-v1"):
        first, [result] = steps(task, ["stick"])
        assert first.text.startswith("Your cards add up to ")
        assert "The dealer shows a" in first.text
        assert result.terminated
        assert result.won == (result.score_delta == 1)
        assert task.expert_plan == ()
        seen[result.score_delta] += 1
    assert set(seen) == {1.0, 0.0, -1.0}


def test_what_is_left_to_chance_has_no_expert_plan_and_makes_no_demonstration(game_cache: Path) -> None:
    slippery = {"is_slippery": True}
    assert {task.expert_plan for task in games(game_cache, 2, kwargs=slippery)} == {()}
    assert games(game_cache, 1, split="demonstrations")[0].expert_plan
    with pytest.raises(TaskError, match="x no expert plan"):
        games(game_cache, 1, split="demonstrations", kwargs=slippery)


def test_chance_is_fixed_by_the_seed(game_cache: Path) -> None:
    pond = {"desc": ["SFFF", "FFFF", "FFFF", "FFFG"], "is_slippery": True}
    first, second = games(game_cache, 2, kwargs=pond)
    walks = [[r.observation.text for r in steps(task, ["up", "left"] * 5)[1]] for task in (first, first, second)]
    assert walks[0] == walks[1] != walks[2]
    assert any("S" in text for text in walks[0])  # slipped away from the corner that it pushes into


def test_the_limit_of_the_environment_itself_is_not_a_loss(game_cache: Path) -> None:
    with pytest.raises(TaskError, match="x it cannot be won"):
        games(game_cache, 1, kwargs={"desc": ["SH", "HG"]})
    [task] = games(game_cache, 1, kwargs={"desc": HOLES_LAKE, "max_episode_steps": 6})
    _, results = steps(task, ["left"] * 6)
    assert [result.truncated for result in results] == [False] * 5 + [True]
    assert not results[-1].terminated and not results[-1].lost


class Count(gymnasium.Env):
    """A game of another package: say 1 or 2 until the sum is just 4; above it the game is over."""

    observation_space = Tuple((Text(20), Discrete(9)))
    action_space = Discrete(2, start=1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.sum = int(self.np_random.integers(2))
        return ("so far", self.sum), {}

    def step(self, action):
        self.sum += int(action)
        return ("so far", self.sum), float(self.sum == 4) * 3, self.sum >= 4, False, {}


gymnasium.register("Count-v0", Count)


def test_a_game_of_somebody_elses(tmp_path: Path) -> None:
    """Told as it observes, acted on by its numbers; the user says what counts as won."""
    name = f"{__name__}:Count-v0"
    with pytest.raises(TaskError, match="set env.winning_return"):
        make_environment("gym", {"id": name}).parse_task(name)
    assert make_environment("gym", {"id": name, "winning_return": 0}).rewards == ("sparse",)
    tasks = games(tmp_path, 6, id=name, winning_return=3)
    assert {task.max_score for task in tasks} == {3.0}
    starts = [steps(task, [])[0].text for task in tasks]
    assert set(starts) == {"You observe: so far, 0", "You observe: so far, 1"}
    zero, one = (tasks[starts.index(f"You observe: so far, {count}")] for count in (0, 1))
    assert zero.goal.endswith("Actions: 1, 2.")
    assert [(r.valid, r.won, r.score_delta) for r in steps(zero, ["3", "2", "2"])[1]] == [
        (False, False, 0.0),
        (True, False, 0.0),
        (True, True, 3.0),
    ]
    assert steps(one, ["2", "2"])[1][-1].lost
