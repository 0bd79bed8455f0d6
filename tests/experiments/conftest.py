"""Commands of ours."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def call(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command's ``main`` with its results in ``tmp_path``/out: exit code, stdout, stderr."""

    def run(main: Callable[[Sequence[str]], int], *arguments: str) -> tuple[int, str, str]:
        code = main([*arguments, f"output_dir={tmp_path / 'out'}", f"env.cache_dir={tmp_path / 'cache'}"])
        return code, *capfd.readouterr()

    return run


@pytest.fixture
def maker(tmp_path: Path) -> Any:
    from report_sweep import SweepMaker  # not for the files that need none

    return SweepMaker(tmp_path)
