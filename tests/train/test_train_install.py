"""How others start it: README's two commands, the Makefile, what CI runs; a wheel elsewhere."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

import pytest

from turngrid.config.base import ROOT

NOT_SOURCES = (".git", ".venv", "runs", "build", "*.egg-info", "__pycache__", ".*_cache", "multirun", "outputs")
READ = ("conf/**/*.yaml", "recipes/*.yaml", "sweeps/*.yaml", "assets/*/*.*", "assets/repair/*/*.py")
READ += ("experiments/*/templates/*", "experiments/viewer/assets/*")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, since a build leaves its traces in the source tree."""
    source, target = tmp_path_factory.mktemp("sources") / "copy", tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*NOT_SOURCES))
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(target), str(source))
    (built,) = target.glob("turngrid-*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel, which borrows what that depends on."""
    home = tmp_path_factory.mktemp("fresh environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    fresh = home / "bin" / "python"
    pip("--python", str(fresh), "install", "--no-deps", str(wheel))
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return fresh


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_everything_a_run_reads_is_in_the_wheel(wheel: Path) -> None:
    with ZipFile(wheel) as content:
        names = content.namelist()
        (points,) = [content.read(name).decode() for name in names if name.endswith("/entry_points.txt")]
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"turngrid"}
    sources = {str(path.relative_to(ROOT)) for pattern in READ for path in ROOT.glob(pattern)}
    assert len(sources) > 100 and {f"turngrid/{name}" for name in sources if "__pycache__" not in name} <= set(names)
    assert re.search(r"\[verl\.plugins\]\n\w+ = turngrid\.verl_plugin\n", points)


def test_the_console_script_runs_from_an_empty_folder(python: Path, tmp_path: Path) -> None:
    command = [str(python.parent / "turngrid-train"), "--cfg", "job", "algo=rloo", "--package", "algorithm"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "adv_estimator: turngrid_rloo" in done.stdout
    assert list(tmp_path.iterdir()) == []


# ---- README's commands

COMMANDS = ["make train", "make test"]


def make(folder: Path, *arguments: str, **variables: str) -> list[str]:
    """The commands that make would run."""
    ours = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "ARGS")}
    environment = {**ours, "TURNGRID_ARGS": "", **variables}  # CI sets it for README's commands
    command = ["make", "--dry-run", "--no-print-directory", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_once_installed_a_command_with_its_arguments_is_all_that_runs(tmp_path: Path) -> None:
    folder = tmp_path / "a path with spaces" / "turngrid"
    (folder / ".venv").mkdir(parents=True)
    for file in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / file, folder)
    shutil.copytree(ROOT / "requirements", folder / "requirements")
    for stamp in (".python", ".torch", ".cpu", ".system", ".dev"):
        (folder / ".venv" / stamp).touch()
    (train,) = make(folder, "train")
    assert train.split() == [".venv/bin/python", "-m", "train"]
    (test,) = make(folder, "test")
    assert '-m "not slow"' in test
    (train,) = make(folder, "train", "ARGS=algo=rloo env.task=w4-o6-q8", TURNGRID_ARGS="eval.games=20")
    assert train.split()[3:] == ["eval.games=20", "algo=rloo", "env.task=w4-o6-q8"]


def test_readme_has_the_two_commands_and_ci_runs_them() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in dict.fromkeys(lines) if line in COMMANDS] == COMMANDS
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "README.md" in script and '"make lint"' in script and os.access(ROOT / ".ci" / "run", os.X_OK)
    subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")], check=True)
