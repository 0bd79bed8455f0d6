"""The reward of docs/extending.md, put into a copy of the project as docs/reward.md says, and the
latter's runnable block."""

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
PAGE, EXAMPLES = ((ROOT / "docs" / name).read_text() for name in ("reward.md", "extending.md"))
FILE = re.compile(r"```\w+\n(?=(?:# @[^\n]*\n)?# (\S+/\S+)\n)(.*?)```", re.DOTALL)
PLACES = {"lamps/reward.py": "rewards/brisk.py", "lamps/conf/reward/brisk.yaml": "conf/reward/brisk.yaml"}
EXAMPLE = re.compile(r"```python\n((?!# \S+/).*?)```", re.DOTALL)

USE = """
import json
from omegaconf import OmegaConf
from turngrid.rewards.registry import reward
from turngrid.rollouts.episode import Turn
node = OmegaConf.load("conf/reward/brisk.yaml").turn_reward
brisk = reward(node.name, node)
turns = [Turn("", "xyzzy", valid=False), Turn("", "open box", score_delta=1.0), Turn("", "jump", score_delta=1.0)]
print(json.dumps([brisk.name, brisk.turn_rewards(turns, True, 2.0)]))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the rooms with the example's three pieces in place."""
    folder = tmp_path / "turngrid"
    folder.mkdir()
    shutil.copy(ROOT / "__init__.py", folder)
    for room in ("envs", "rewards", "rollouts", "conf"):
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    blocks = dict(FILE.findall(EXAMPLES))
    for path, place in PLACES.items():
        assert place in PAGE
        (folder / place).write_text(blocks[path])
    line = dict(FILE.findall(PAGE))["rewards/registry.py"]
    registry = folder / "rewards/registry.py"
    head = "REWARDS: dict[str, str] = {\n"
    assert head in registry.read_text()
    registry.write_text(registry.read_text().replace(head, head + line))
    return folder


def run(folder: Path, root: Path, code: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(root.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_new_reward_is_found_and_pays(project: Path) -> None:
    assert json.loads(run(project, project, USE)) == ["brisk", [-0.01, -0.01, 0.99]]


@pytest.mark.parametrize("example", EXAMPLE.findall(PAGE))
def test_the_example_prints_what_it_says(example: str, output_of: Callable[[str], str]) -> None:
    said = re.findall(r"# (\[.*\])$", example, re.MULTILINE)
    assert said
    assert output_of(example).splitlines() == said
