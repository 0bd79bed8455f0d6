"""The runs of a launch and their commands.

verl, Ray and wandb keep global state, so each run is ``python -m train`` in a separate process.
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from turngrid.envs.utils.parent import die_with_parent
from turngrid.records.process.child import child_variables

WATCHED = ("tracking.group", "tracking.run_name")  # keys for trackers, not part of a run's identity


@dataclass(frozen=True)
class LaunchedRun:
    """One run of a launch. ``number`` counts from 1; ``label`` is its name in messages."""

    number: int
    overrides: tuple[str, ...]
    label: str

    @property
    def identity(self) -> list[str]:
        return [text for text in self.overrides if text.lstrip("+~").split("=")[0] not in WATCHED]


def command(run: LaunchedRun, config_dir: str | None = None) -> list[str]:
    """Return the command of a run; with ``-P``, ``PYTHONPATH`` alone says what it imports."""
    flags = ["--config-dir", str(Path(config_dir).absolute())] if config_dir else []
    return [sys.executable, "-P", "-m", "turngrid.train", *flags, *run.overrides]


def call(arguments: Sequence[str], variables: Mapping[str, str] | None = None) -> int:
    """Run a command and return its exit code. The command ends if this process ends."""
    own = child_variables(variables or {})
    return subprocess.run(arguments, check=False, env=own, preexec_fn=die_with_parent).returncode
