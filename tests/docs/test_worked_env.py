"""The environment of docs/extending.md, put into a copy of the project as docs/env.md says, and the
latter's runnable blocks."""

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
PAGE, EXAMPLES = ((ROOT / "docs" / name).read_text() for name in ("env.md", "extending.md"))
FILE = re.compile(r"```\w+\n(?=(?:# @[^\n]*\n)?# (\S+/\S+)\n)(.*?)```", re.DOTALL)
PLACES = {"lamps/environment.py": "envs/lamps/environment.py", "lamps/conf/env/lamps.yaml": "conf/env/lamps.yaml"}
EXAMPLE = re.compile(r"```python\n((?!# \S+/).*?)```", re.DOTALL)

USE = """
import asyncio, json, sys
from omegaconf import OmegaConf
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.registry import make_environment

env = OmegaConf.load("conf/env/lamps.yaml").env
listing = Catalogue(make_environment(env.name), sys.argv[1]).listing("lamps-3", "train", 5, progress=False)

async def main():
    async with EnvPool(env.name, 1, 20.0, legal=True) as pool:
        for task in listing.tasks:
            session = await pool.open()
            plan = (await session.reset(task, 0)).legal
            results = [await session.step(action) for action in plan]
            assert [(result.won, result.score_delta) for result in results] == [(False, 0), (True, 1)]
            assert task.max_score == 1
            await session.reset(task, 0)
            for action in ("", "quit\\n" + plan[0], "light ²", "x" * 200_000):
                refused = await session.step(action)
                assert not refused.valid and "Dark:" in refused.observation.text

asyncio.run(main())
seeds, files = [task.seed for task in listing.tasks], {task.sha256 for task in listing.tasks}
print(json.dumps([seeds, len(files), listing.rejected]))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the rooms with the example's three pieces in place."""
    folder = tmp_path / "turngrid"
    folder.mkdir()
    shutil.copy(ROOT / "__init__.py", folder)
    for room in ("envs", "conf"):
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    blocks = dict(FILE.findall(EXAMPLES))
    for path, place in PLACES.items():
        assert place in PAGE
        (folder / place).parent.mkdir(exist_ok=True)
        (folder / place).write_text(blocks[path])
    line = dict(FILE.findall(PAGE))["envs/registry.py"]
    registry = folder / "envs/registry.py"
    head = "ENVIRONMENTS: dict[str, str] = {\n"
    assert head in registry.read_text()
    registry.write_text(registry.read_text().replace(head, head + line))
    return folder


def run(folder: Path, *arguments: str, **env: str) -> str:
    environment = {**os.environ, **env}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_new_environment_is_listed_and_played(project: Path) -> None:
    """Without a ``make_game`` every seed is a game of its own."""
    seeds, games, rejected = json.loads(run(project, "-c", USE, str(project / "cache"), PYTHONPATH=str(project.parent)))
    assert seeds == [30001, 30002, 30003, 30004, 30005] and games == 5 and not rejected
    assert len(dict(FILE.findall(EXAMPLES))["lamps/environment.py"].splitlines()) <= 41  # with its name


@pytest.mark.parametrize("example", EXAMPLE.findall(PAGE))
def test_the_examples_run(example: str, output_of: Callable[[str], str]) -> None:
    assert output_of(example)
