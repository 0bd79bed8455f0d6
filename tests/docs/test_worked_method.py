"""The methods of docs/extending.md, put into a copy of the project as docs/methods.md says."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = (
    "algorithms",
    "config",
    "conf",
    "envs",
    "rewards",
    "rollouts",
    "tasks",
    "records",
    "experiments",
    "recipes",
    "assets",
)
PAGE, EXAMPLES = ((ROOT / "docs" / name).read_text() for name in ("methods.md", "extending.md"))
PLACES = {
    "lamps/credit.py": "algorithms/credit/last.py",
    "lamps/conf/credit/last.yaml": "conf/credit/last.yaml",
    "lamps/shaping.py": "rewards/shaping/early.py",
    "lamps/conf/shaping/early.yaml": "conf/shaping/early.yaml",
}
FILE = re.compile(r"```\w+\n(?=(?:# @[^\n]*\n)?# (\S+/\S+)\n)(.*?)```", re.DOTALL)
HEADS = ('        "algorithms.credit",\n        "', '        "rewards.shaping",\n        "')  # of the registry

USE = """
import json, sys
import torch
sys.path.append(sys.argv[1])
from example_x import example_x
from turngrid.algorithms.chosen import algorithm
from turngrid.config.compose import compose
from turngrid.config.method_settings import made
from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.rollouts.shaping import shape
config = compose(["algo=gigpo", "credit=[gigpo,last]", "credit.last.others=0.25", "shaping=[early]"])
methods = made(config).of("credit", 1)
three = [Turn("", "", rewards={"sparse": r}) for r in (0.0, 0.0, 1.0)]
played = Episode("t", 1, "train", "", [], [], three, Outcome.WON)
shape(played, "sparse", made(config).of("shaping", 1))
paid = [turn.trained("sparse") for turn in played.turns]
turns = example_x()
found = methods["last"](turns, torch.ones(turns.mask.shape))
word = compose(["algo=last_turns"])
named = [word.algo.name, list(word.credit), algorithm(word.algo.name).name]
print(json.dumps([list(methods), found[1].tolist(), found[0, :2].tolist(), paid, named]))
"""

TYPO = """
from turngrid.config.compose import compose
from turngrid.config.errors import ConfigError
try:
    compose(["credit=[last]", "credit.last.other=0.5"])
except ConfigError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the rooms with the three pieces of both examples in place."""
    folder = tmp_path_factory.mktemp("project") / "turngrid"
    folder.mkdir()
    shutil.copy(ROOT / "__init__.py", folder)
    for room in ROOMS:
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    blocks = dict(FILE.findall(EXAMPLES))
    for path, place in PLACES.items():
        assert place in PAGE
        (folder / place).write_text(blocks[path])
    (word,) = (text for path, text in FILE.findall(PAGE) if path == "conf/algo/last_turns.yaml")
    (folder / "conf/algo/last_turns.yaml").write_text(word)
    lines = [text.partition("\n")[2] for path, text in FILE.findall(PAGE) if path == "algorithms/registry.py"]
    registry = folder / "algorithms/registry.py"
    for line, head in zip(lines, HEADS, strict=True):
        assert line.startswith(head) and head in registry.read_text()
        registry.write_text(registry.read_text().replace(head, line.removesuffix("...\n")))
    return folder


@pytest.fixture(scope="module")
def said(project: Path) -> list[str]:
    """What one process says there: torch is read once."""
    command = [sys.executable, "-c", USE + TYPO, str(ROOT / "tests/algorithms")]
    env = {"PYTHONPATH": str(project.parent)}
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_new_method_is_chosen_by_its_name_and_acts(said: list[str]) -> None:
    names, longest, first, paid, named = json.loads(said[0])
    assert named == ["last_turns", ["last"], "grpo"], "an algo= word is one YAML"
    assert names == ["gigpo", "last"]
    assert longest == [0.25, 0.25, 1.0] and first == [0.25, 1.0]
    assert paid == pytest.approx([0.0, 0.0, 1 + 0.1 / 3])


def test_a_typo_in_its_settings_is_answered(said: list[str]) -> None:
    assert "use credit.last.others" in said[1]
