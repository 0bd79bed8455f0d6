"""The worked example of docs/reward.md, followed to the letter in a copy of the project, and its runnable block."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reward.md").read_text()
FILE = re.compile(r"```\w+\n# (\S+/\S+)\n(.*?)```", re.DOTALL)
EXAMPLE = re.compile(r"```python\n((?!# \S+/).*?)```", re.DOTALL)

USE = """
import json
from omegaconf import OmegaConf
from rewards.registry import reward
from rollouts.episode import Turn
tidy = reward(OmegaConf.load("conf/reward/tidy.yaml").turn_reward.name)
turns = [Turn("", "xyzzy", valid=False), Turn("", "open box", score_delta=1.0), Turn("", "jump", score_delta=1.0)]
print(json.dumps([tidy.name, tidy.turn_rewards(turns, True, 2.0)]))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the rooms with the example's three pieces in place."""
    for room in ("envs", "rewards", "rollouts", "conf"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    blocks = dict(FILE.findall(PAGE))
    line = blocks.pop("rewards/registry.py")
    assert set(blocks) == {"rewards/tidy.py", "conf/reward/tidy.yaml"}
    for path, content in blocks.items():
        (tmp_path / path).write_text(content)
    registry = tmp_path / "rewards/registry.py"
    head = "REWARDS: dict[str, str] = {\n"
    assert head in registry.read_text()
    registry.write_text(registry.read_text().replace(head, head + line))
    return tmp_path


def run(folder: Path, root: Path, code: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_new_reward_is_found_and_pays(project: Path) -> None:
    assert json.loads(run(project, project, USE)) == ["tidy", [-0.05, 0.5, 0.5]]


@pytest.mark.parametrize("example", EXAMPLE.findall(PAGE))
def test_the_example_prints_what_it_says(example: str, output_of: Callable[[str], str]) -> None:
    said = re.findall(r"# (\[.*\])$", example, re.MULTILINE)
    assert said
    assert output_of(example).splitlines() == said
