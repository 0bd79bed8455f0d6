"""README's two commands, the Makefile behind them, and what CI runs."""

import os
import shutil
import subprocess
from pathlib import Path

from turngrid.config.base import ROOT

COMMANDS = ["make train", "make test"]


def make(folder: Path, *arguments: str, **variables: str) -> list[str]:
    """The commands that make would run."""
    ours = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "ARGS")}
    environment = {**ours, "TURNGRID_ARGS": "", **variables}  # CI sets it for README's commands
    command = ["make", "--dry-run", "--no-print-directory", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def set_up(folder: Path) -> Path:
    """The Makefile in a path with a space, with its environment already installed."""
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", folder)
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copytree(ROOT / "requirements", folder / "requirements")
    (folder / ".venv").mkdir()
    for stamp in (".python", ".torch", ".cpu", ".system", ".dev"):
        (folder / ".venv" / stamp).touch()
    return folder


def test_once_installed_a_command_with_its_arguments_is_all_that_runs(tmp_path: Path) -> None:
    folder = set_up(tmp_path / "a path with spaces" / "turngrid")
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
