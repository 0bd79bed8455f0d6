"""Our loader in verl's place: rows of the data set, in the order of the draws, with a state that
torch saves."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import DictConfig, OmegaConf

from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.verl_plugin.dataset import TaskDataset
from turngrid.verl_plugin.training import task_loader
from turngrid.verl_plugin.training.task_loader import GameLoader, Games, by_task, task_metrics

TASKS = {"simple": 6, "complex": 2}
NODES: dict[str, dict[str, Any]] = {
    "none": {"name": "none", "phases": None},
    "phases": {"name": "phases", "phases": {1: ["simple"], 3: ["simple", "complex"]}},
    "threshold": {"name": "threshold", "threshold": 0.5, "window": 2, "keep": False},
}


def config(node: str) -> DictConfig:
    tasks = dict.fromkeys(TASKS, 1.0)
    return OmegaConf.create(
        {"env": {"tasks": tasks}, "data": {"train_batch_size": 4}, "seed": 3, "curriculum": NODES[node]}
    )


@pytest.fixture
def dataset(tmp_path: Path) -> TaskDataset:
    names = [task for task, count in TASKS.items() for _ in range(count)]
    rows = [{"env": "textworld", "task": task, "goal": "Win.", "seed": seed} for seed, task in enumerate(names)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return TaskDataset(str(tmp_path / "train.jsonl"))


def loader(dataset: TaskDataset, node: str) -> GameLoader:
    return GameLoader(dataset, task_loader.draws(dataset, config(node)), 1)


def play(games: GameLoader, step: int) -> list[int]:
    """A step of four prompts, of which half are won."""
    games.draws.begin(step)
    numbers = [int(number) for _ in range(4) for number in next(iter(games))["index"]]
    games.draws.curriculum.observe(step, dict.fromkeys(TASKS, (2, 4)))
    return numbers


@pytest.mark.parametrize("node", NODES)
def test_a_checkpoint_holds_all_that_the_next_step_needs(dataset: TaskDataset, node: str, tmp_path: Path) -> None:
    """Saved and loaded as verl does (``data.pt``), between any two steps."""
    unbroken = loader(dataset, node)
    played = []
    for step in range(1, 7):
        played.append(play(unbroken, step))
        torch.save(unbroken.state_dict(), tmp_path / f"{step}.pt")
    for saved in range(1, 6):
        resumed = loader(dataset, node)
        resumed.load_state_dict(torch.load(tmp_path / f"{saved}.pt", weights_only=False))
        assert [play(resumed, step) for step in range(saved + 1, 7)] == played[saved:]


def episode(task: str, won: bool, turns: int, reward: float) -> Episode:
    made = [Turn("", "go east", rewards={"sparse": 0.0}) for _ in range(turns)]
    made[-1].rewards["sparse"] = reward
    outcome = Outcome.WON if won else Outcome.LOST
    return Episode(f"textworld/{task}/1", 1, "train", "", [], [], made, outcome)


def test_metrics_by_task_by_hand() -> None:
    """Two episodes of one task, of 2 and 4 turns, one of them won; one of 3 turns of the other."""
    episodes = [episode("b", True, 2, 1.0), episode("a", False, 3, 0.0), episode("b", False, 4, -0.5)]
    assert task_metrics(by_task(episodes), "sparse") == {
        "success/by_task/a": 0.0,
        "reward/by_task/a": 0.0,
        "rollout/turns_by_task/a": 3.0,
        "rollout/episodes_by_task/a": 1.0,
        "success/by_task/b": 0.5,
        "reward/by_task/b": 0.25,
        "rollout/turns_by_task/b": 3.0,
        "rollout/episodes_by_task/b": 2.0,
    }


def test_a_threshold_learns_of_a_step_before_its_checkpoint(dataset: TaskDataset) -> None:
    """``metrics`` is asked when the step is logged, after which verl saves the loader's state."""
    nodes = {"env": {"max_turns": 6}, "turn_reward": {"name": "sparse"}, "curriculum": {"horizon": {1: 2, 2: 5}}}
    games = Games(OmegaConf.merge(config("threshold"), nodes))
    loader = games.loader(dataset)
    seen = []
    for step, won in enumerate([True, False, True], start=1):
        guided = replace(episode("simple", True, 2, 1.0), guidance="a plan")  # whose success is not the policy's
        metrics = games.metrics(step, [episode("simple", won, 2, float(won)), guided])
        seen.append([metrics[f"curriculum/{name}"] for name in ("stage", "success", "max_turns")])
        assert metrics["success/by_task/simple"] == float(won)
    assert seen == [[1.0, 1.0, 2.0], [1.0, 0.5, 5.0], [2.0, 0.0, 5.0]]  # half of two steps is enough
    assert loader.state_dict()["curriculum"]["first_step"] == 3


def test_a_horizon_over_one_task_leaves_the_games_to_verl_if_they_fill_a_batch(dataset: TaskDataset) -> None:
    curriculum = {"name": "horizon", "horizon": {1: 2, 4: 5}, "phases": None}
    env = {"tasks": None, "task": "simple", "max_turns": 6}
    nodes = {"env": env, "turn_reward": {"name": "sparse"}, "curriculum": curriculum, "seed": 3}
    few = Games(OmegaConf.create({**nodes, "data": {"train_batch_size": 9}}))
    loader = few.loader(dataset)
    few.begin(1)
    assert loader is not None and sorted({*next(loader)["index"].tolist()}) == list(range(8))
    games = Games(OmegaConf.create({**nodes, "data": {"train_batch_size": 8}}))
    assert games.loader(dataset) is None
    assert games.metrics(4, [episode("simple", True, 2, 1.0)]) == {"curriculum/max_turns": 5.0}


def test_solved_games_of_one_task_are_drawn_no_more(tmp_path: Path) -> None:
    """Six games, of which the first is won twice, the second once, and the third only with a plan;
    a reward of 0 is none."""
    rows = [{"env": "textworld", "task": "simple", "goal": "Win.", "seed": seed} for seed in range(6)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    nodes = {
        "env": {"tasks": None, "task": "simple"},
        "data": {"gen_batch_size": 1},
        "turn_reward": {"name": "sparse"},
        "filter": {"solved": {"share": 0.9}},
    }
    games = Games(OmegaConf.merge({**config("none"), "env": {}}, nodes))
    loader = games.loader(TaskDataset(str(tmp_path / "train.jsonl")))
    games.begin(1)
    first = [int(next(loader)["index"][0]) for _ in range(6)]
    rewards = [(0, 1.0), (0, 0.5), (1, 1.0), (1, 0.0), (2, 0.0), (3, 0.0), (4, -1.0), (5, 0.0)]
    played = [replace(episode("simple", reward > 0, 2, reward), task=f"textworld/simple/{n}") for n, reward in rewards]
    guided = replace(episode("simple", True, 2, 1.0), task="textworld/simple/2", guidance="a plan")
    assert games.metrics(1, [*played, guided]) == {"filter/solved/left_out": 0.0}
    games.begin(2)
    second = [int(next(loader)["index"][0]) for _ in range(5)]
    assert (sorted(first), sorted(second)) == (list(range(6)), [1, 2, 3, 4, 5])
    assert games.metrics(2, []) == {"filter/solved/left_out": 1.0}
