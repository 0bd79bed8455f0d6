"""The examples of docs/swegym.md and docs/sandbox.md run and print what the pages say."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/swegym.md").read_text()
SANDBOX = (ROOT / "docs/sandbox.md").read_text()
BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)


def run(example: str, folder: Path) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TURNGRID_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_episode_goes_as_the_page_tells(tmp_path: Path) -> None:
    [(kind, example), (plain, printed)] = BLOCK.findall(PAGE)
    assert (kind, plain) == ("python", "")
    assert run(example, tmp_path) == printed


def test_the_sandbox_example_runs(tmp_path: Path) -> None:
    [(_, example)] = BLOCK.findall(SANDBOX)
    level, outcome = run(example, tmp_path).splitlines()
    assert level in ("bubblewrap", "namespaces", "limits")
    assert outcome.startswith("finished ")
    if level != "limits":
        assert "b'/repo\\n'" in outcome
        assert not Path("/usr/x").exists()


def test_the_pages_name_every_key_and_outcome() -> None:
    from envs.repair.swegym import Settings
    from envs.sandbox.types import Level, Outcome

    assert all(f"env.{name}" in PAGE for name in Settings.__dataclass_fields__)
    assert all(f"`{name}`" in SANDBOX for name in [*Outcome, *Level])
