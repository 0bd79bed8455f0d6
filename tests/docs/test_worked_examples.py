"""The examples of docs/extending.md, put into a copy of the project as docs/env.md, docs/reward.md
and docs/methods.md say, that of docs/algo.md in the same copy."""

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
ROOMS = ("algorithms", "assets", "conf", "config", "envs", "experiments", "recipes", "records", "rewards", "rollouts")
ROOMS += ("tasks", "train", "verl_plugin")
PAGES = {name: (ROOT / "docs" / f"{name}.md").read_text() for name in ("env", "reward", "methods", "algo", "extending")}
FILE = re.compile(r"```\w+\n(?=(?:# @[^\n]*\n)?# (\S+/\S+)\n)(.*?)```", re.DOTALL)
PLACES = {  # page -> file of docs/extending.md -> where the page puts it
    "env": {"lamps/environment.py": "envs/lamps/environment.py", "lamps/conf/env/lamps.yaml": "conf/env/lamps.yaml"},
    "reward": {"lamps/reward.py": "rewards/brisk.py", "lamps/conf/reward/brisk.yaml": "conf/reward/brisk.yaml"},
    "methods": {
        "lamps/credit.py": "algorithms/credit/last.py",
        "lamps/conf/credit/last.yaml": "conf/credit/last.yaml",
        "lamps/shaping.py": "rewards/shaping/early.py",
        "lamps/conf/shaping/early.yaml": "conf/shaping/early.yaml",
    },
}
# Pages and registries, and after what a page's line is to be put there
HEADS = {
    ("env", "envs/registry.py"): ("ENVIRONMENTS: dict[str, str] = {\n",),
    ("reward", "rewards/registry.py"): ("REWARDS: dict[str, str] = {\n",),
    ("algo", "algorithms/registry.py"): ("    for algorithm in (\n",),
}
SLOTS = ('        "algorithms.credit",\n        "', '        "rewards.shaping",\n        "')

# Each part prints a line. test_extending_page.py asks what the pieces do.
NAMED = """
import json, sys
import torch
sys.path.append(sys.argv[1])
from example_x import example_x
from turngrid.algorithms.chosen import algorithm
from turngrid.config.compose import compose
from turngrid.config.method_settings import methods_of
from turngrid.envs.registry import make_environment
from turngrid.rewards.registry import reward
config = compose(["env=lamps", "reward=brisk", "algo=gigpo", "credit=[gigpo,last]", "shaping=[early]"])
methods = {slot: list(methods_of(config).of(slot, 1)) for slot in ("credit", "shaping")}
found = [make_environment(config.env.name).name, reward(config.turn_reward.name, config.turn_reward).name, methods]
word, turns = compose(["algo=last_turns"]), example_x()
found += [[word.algo.name, list(word.credit), algorithm(word.algo.name).name]]
print(json.dumps(found))
"""
# Two episodes with scores 1 and 4: the mean is 2.5. The third row is one of verl's dummy rows.
ESTIMATOR = """
import turngrid.verl_plugin.training.estimators
from verl.trainer.ppo.core_algos import get_adv_estimator_fn
estimator = get_adv_estimator_fn("turngrid_batch_mean")
rewards = torch.tensor([[0.0, 0, 1], [4, 0, 0], [0, 0, 0]])
mask = torch.tensor([[1, 0, 1], [1, 0, 0], [0, 0, 0]])
advantages = estimator(token_level_rewards=rewards, response_mask=mask, index=["a", "a", "b"])[0].tolist()
config = compose(["algo=batch_mean"])
print(json.dumps([advantages, config.algo.name, config.algorithm.adv_estimator]))
"""
OVER_TURNS = """
from turngrid.algorithms.slots import Tokens
from turngrid.config.checks.check import check
name = "algo.name=my_package.returns:TurnReturns"
chosen = ["algo=reinforce_plus_plus", name, "algorithm.adv_estimator=turngrid_turns", "+algo.gamma=0.5"]
by_file = compose(["algo=turn_returns", name, "algo.gamma=0.5"], config_dir="my_package/conf")
both = []
for config in (compose(chosen), by_file):
    check(config)
    (method,) = methods_of(config).of("algo", 1).values()
    found = method(turns, Tokens(turns.place >= 0, torch.zeros(turns.place.shape)))
    both.append([found.returns[3].tolist(), found.advantages[turns.mask].std().item()])
print(json.dumps(both))
"""
PARTS = {"named": NAMED, "algo": ESTIMATOR, "over turns": OVER_TURNS}


def blocks(page: str) -> dict[str, list[str]]:
    """By the name of the file, what the page shows of it."""
    found: dict[str, list[str]] = {}
    for path, text in FILE.findall(PAGES[page]):
        found.setdefault(path, []).append(text)
    return found


def put(folder: Path, path: str, text: str) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text)


def insert(file: Path, head: str, line: str) -> None:
    text = file.read_text()
    assert head in text
    file.write_text(text.replace(head, line))


def copied(folder: Path) -> Path:
    """A copy of the rooms with all pieces of the examples in place."""
    folder.mkdir()
    shutil.copy(ROOT / "__init__.py", folder)
    for room in ROOMS:
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    for page, places in PLACES.items():
        for path, place in places.items():
            assert place in PAGES[page]
            put(folder, place, blocks("extending")[path][0])
    put(folder, "conf/algo/last_turns.yaml", blocks("methods")["conf/algo/last_turns.yaml"][0])
    for path, (text, *_) in blocks("algo").items():
        if path != "algorithms/registry.py":
            put(folder.parent if path.startswith("my_package/") else folder, path, text)
    for (page, path), (head,) in HEADS.items():
        insert(folder / path, head, head + blocks(page)[path][0])
    for head, shown in zip(SLOTS, blocks("methods")["algorithms/registry.py"], strict=True):
        line = shown.partition("\n")[2]
        assert line.startswith(head)
        insert(folder / "algorithms/registry.py", head, line.removesuffix("...\n"))
    return folder


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one process beside it says, by part: torch and verl are read once. The copy's folders
    are not on its path, so a name without ``turngrid.`` fails."""
    project = copied(tmp_path_factory.mktemp("project") / "turngrid")
    command = [sys.executable, "-W", "ignore", "-c", "".join(PARTS.values()), str(ROOT / "tests/algorithms")]
    env = {**os.environ, "PYTHONPATH": str(project.parent)}
    done = subprocess.run(command, cwd=project.parent, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(zip(PARTS, map(json.loads, done.stdout.splitlines()[-len(PARTS) :]), strict=True))


def test_each_piece_is_found_by_its_name(said: dict[str, Any]) -> None:
    environment, brisk, methods, word = said["named"]
    assert (environment, brisk) == ("lamps", "brisk")
    assert methods == {"credit": ["gigpo", "last"], "shaping": ["early"]}
    assert word == ["last_turns", ["last"], "grpo"], "an algo= word is one YAML"
    assert len(blocks("extending")["lamps/environment.py"][0].splitlines()) <= 41  # with its name


def test_verl_and_the_front_door_find_the_new_estimator(said: dict[str, Any]) -> None:
    advantages, *names = said["algo"]
    assert advantages == [[-1.5, 0, -1.5], [1.5, 0, 0], [0, 0, 0]]
    assert names == ["batch_mean", "turngrid_batch_mean"]


def test_an_estimator_over_turns_from_elsewhere_is_chosen(said: dict[str, Any]) -> None:
    for returns, spread in said["over turns"]:
        assert returns == [0.25, 0.5, 0.5] and spread == pytest.approx(1)
