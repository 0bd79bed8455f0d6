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


@pytest.mark.parametrize("left", [False, True], ids=["deleted", "only-a-cache-left"])
def test_the_plugin_without_what_only_starts_sooner(tmp_path: Path, left: bool) -> None:
    source, copy = Path(verl_plugin.__file__).parent, tmp_path / "verl_plugin"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__", "start"))
    if left:
        (copy / "cpu" / "start" / "__pycache__").mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        check=False,
        cwd=tmp_path,
        env=_paths(tmp_path, source),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    place, *hooks = done.stdout.splitlines()
    assert Path(place).is_relative_to(tmp_path)
    assert hooks == sorted({change.module for change in AFTER_IMPORT})
    assert len(hooks) < len(HOOKS), "with the folder there are more"


def _paths(copy: Path, source: Path) -> dict[str, str]:
    return {"PYTHONPATH": f"{copy}:{source.parent}", "PATH": ""}
