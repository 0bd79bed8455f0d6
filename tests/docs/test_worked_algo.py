"""The worked example of docs/algo.md, followed to the letter in a copy of the project."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```\w+\n(?=(?:# @[^\n]*\n)?# (\S+)\n)(.*?)```", re.DOTALL)

# Two episodes with scores 1 and 4: the mean is 2.5. The third row is one of verl's dummy rows.
USE = """
import json, torch, turngrid.verl_plugin.training.estimators
from turngrid.config.compose import compose
from verl.trainer.ppo.core_algos import get_adv_estimator_fn
estimator = get_adv_estimator_fn("turngrid_batch_mean")
rewards = torch.tensor([[0.0, 0, 1], [4, 0, 0], [0, 0, 0]])
mask = torch.tensor([[1, 0, 1], [1, 0, 0], [0, 0, 0]])
advantages = estimator(token_level_rewards=rewards, response_mask=mask, index=["a", "a", "b"])[0].tolist()
config = compose(["algo=batch_mean"])
print(json.dumps([advantages, config.algo.name, config.algorithm.adv_estimator]))
"""

OVER_TURNS = """
import json, sys
sys.path.append(sys.argv[1])
import torch
from example_x import example_x
from turngrid.algorithms.slots import Tokens
from turngrid.config.checks.check import check
from turngrid.config.compose import compose
from turngrid.config.method_settings import made
name = "algo.name=my_package.returns:TurnReturns"
chosen = ["algo=reinforce_plus_plus", name, "algorithm.adv_estimator=turngrid_turns", "+algo.gamma=0.5"]
by_file = compose(["algo=turn_returns", name, "algo.gamma=0.5"], config_dir="my_package/conf")
turns = example_x()
for config in (compose(chosen), by_file):
    check(config)
    (method,) = made(config).of("algo", 1).values()
    found = method(turns, Tokens(turns.place >= 0, torch.zeros(turns.place.shape)))
    print(json.dumps([found.returns[3].tolist(), found.advantages[turns.mask].std().item()]))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What one process says there, a line each: verl is read once."""
    command = [sys.executable, "-W", "ignore", "-c", USE + OVER_TURNS, str(ROOT / "tests/algorithms")]
    project = copied(tmp_path_factory.mktemp("project") / "turngrid")
    lines = subprocess.run(
        command,
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project.parent)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    return [json.loads(line) for line in lines[-3:]]


def copied(folder: Path) -> Path:
    """A copy of the rooms with the example's three pieces in place."""
    folder.mkdir()
    shutil.copy(ROOT / "__init__.py", folder)
    for room in (
        "algorithms",
        "verl_plugin",
        "rollouts",
        "envs",
        "rewards",
        "config",
        "records",
        "tasks",
        "experiments",
        "train",
        "conf",
        "recipes",
        "assets",
    ):
        if (ROOT / room).is_dir():
            shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    blocks = dict(BLOCK.findall((ROOT / "docs/algo.md").read_text()))
    line = blocks.pop("algorithms/registry.py")
    for path, content in blocks.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    registry = folder / "algorithms/registry.py"
    head = "    for algorithm in (\n"
    registry.write_text(registry.read_text().replace(head, head + line))
    return folder


def test_verl_and_the_front_door_find_the_new_estimator(said: list[Any]) -> None:
    advantages, *names = said[0]
    assert advantages == [[-1.5, 0, -1.5], [1.5, 0, 0], [0, 0, 0]]
    assert names == ["batch_mean", "turngrid_batch_mean"]


def test_an_estimator_over_turns_from_elsewhere_is_chosen(said: list[Any]) -> None:
    for returns, spread in said[1:]:
        assert returns == [0.25, 0.5, 0.5] and spread == pytest.approx(1)
