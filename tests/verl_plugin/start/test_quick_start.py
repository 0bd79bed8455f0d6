"""``verl_plugin/cpu/start/`` can be deleted, and nothing else need change."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import verl_plugin
from verl_plugin.changes import AFTER_IMPORT
from verl_plugin.hooks import HOOKS

ASK = """
import sys
import verl_plugin.rl
from verl_plugin.cpu import quick_start
from verl_plugin.hooks import HOOKS
quick_start.begin(None)
assert not {name for name in sys.modules if name in ("ray", "torch", "verl")}, "nothing is started or imported early"
print(verl_plugin.__file__, *sorted(HOOKS), sep="\\n")
"""
SHARED_RAY = """
import ray
from conftest import _start_ray
ray.init = lambda **settings: print("started with", settings["num_gpus"], "logical GPU")
_start_ray()
"""
TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("left", [False, True], ids=["deleted", "only-a-cache-left"])
def test_the_plugin_without_what_only_starts_sooner(tmp_path: Path, left: bool) -> None:
    source, copy = Path(verl_plugin.__file__).parent, tmp_path / "verl_plugin"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__", "start"))
    if left:
        (copy / "cpu" / "start" / "__pycache__").mkdir(parents=True)
    place, *hooks = _told(ASK, tmp_path, source.parent)
    assert Path(place).is_relative_to(tmp_path)
    assert hooks == sorted({change.module for change in AFTER_IMPORT})
    assert len(hooks) < len(HOOKS), "with the folder there are more"


def test_the_ray_that_tests_share_starts_without_it(tmp_path: Path) -> None:
    source = Path(verl_plugin.__file__).parent
    shutil.copytree(source, tmp_path / "verl_plugin", ignore=shutil.ignore_patterns("__pycache__", "start"))
    assert _told(SHARED_RAY, tmp_path, source.parent, TESTS) == ["started with 1 logical GPU"]


def _told(code: str, *path: Path) -> list[str]:
    variables = {"PYTHONPATH": ":".join(map(str, path)), "PATH": "", "VERL_PLATFORM": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, cwd=path[0], env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
