"""A command of ours on games that cost nothing."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import counting_environment
import pytest

from turngrid.config.base import ROOT

Command = Callable[..., tuple[int, str, str]]


def command(
    main: Callable[[Sequence[str]], int], folder: Path, patch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Command:
    """What runs ``main`` with its results in ``folder``/out, whose workers find
    ``counting_environment``: exit code, stdout, stderr."""
    patch.setenv("PYTHONPATH", f"{Path(counting_environment.__file__).parent}{os.pathsep}{ROOT}")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main([*arguments, f"output_dir={folder / 'out'}", f"env.cache_dir={folder / 'cache'}"])
        return code, *capfd.readouterr()

    return run
