"""Commands of ours, and the environments of this folder for the processes that play them."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from turngrid.config.base import ROOT


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that a test starts import the modules of this folder."""
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parent}{os.pathsep}{ROOT}")


@pytest.fixture
def call(importable: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command's ``main`` with its results in ``tmp_path``/out: exit code, stdout, stderr."""

    def run(main: Callable[[Sequence[str]], int], *arguments: str) -> tuple[int, str, str]:
        code = main([*arguments, f"output_dir={tmp_path / 'out'}", f"env.cache_dir={tmp_path / 'cache'}"])
        return code, *capfd.readouterr()

    return run
