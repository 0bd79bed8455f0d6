"""What the docs show of the code is what the code is: the drawing of packages, the tables of
methods and of changes in verl, and file names."""

import re
import tomllib
from pathlib import Path

import pytest

from benchmarks.pages import pages

ROOT = Path(__file__).parents[2]
# `runs/`, where something ran
WRITTEN_HERE = (ROOT / ".gitignore").read_text(encoding="utf-8").replace("/", "").split()
FOLDERS = (path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("."))
ROOMS = sorted(name for name in FOLDERS if name not in WRITTEN_HERE)
PATHS = re.compile(rf"(?<![\w./-])(?:{'|'.join(ROOMS)})/[\w./-]+\.\w+")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WRITTEN = {  # by whoever follows the page, or read in a run's folder or a repository that is repaired
    "algo.md": {"algorithms/batch_mean.py", "conf/algo/batch_mean.yaml"},
    "configuration.md": {"recipes/NAME.yaml"},
    "env.md": {"envs/lamps/environment.py", "conf/env/lamps.yaml", "tasks/skipped.json"},
    "methods.md": {
        "conf/algo/last_turns.yaml",
        *("algorithms/credit/last.py", "conf/credit/last.yaml"),
        *("rewards/shaping/early.py", "conf/shaping/early.yaml"),
    },
    "repo_repair.md": {"tasks/skipped.json"},
    "reward.md": {"rewards/brisk.py", "conf/reward/brisk.yaml"},
    "runs.md": {"tasks/skipped.json"},
    "slurm.md": {"conf/cluster/mine.yaml"},
    "swegym.md": {"tests/test_calc.py"},
}


def test_what_is_committed_is_what_the_script_writes() -> None:
    for file, drawn in pages().items():
        assert file.read_text(encoding="utf-8") == drawn, f"{file.name}: python -m benchmarks.pages writes it anew"


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "architecture.md"], ids=lambda page: page.name)
def test_the_drawing_is_the_contract_of_packages(page: Path) -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    drawn = " --> ".join(layers).replace("turngrid.", "").replace("|", "&")
    assert f"flowchart TB\n  {drawn}\n" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    named = set(PATHS.findall(page.read_text(encoding="utf-8")))
    assert {name for name in named if not (ROOT / name).exists()} == WRITTEN.get(page.name, set())
