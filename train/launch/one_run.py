"""The runs of a launch: their overrides, labels and commands.

verl, Ray and wandb keep global state, so each run is ``python -m train`` in a separate process.
"""

import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra.core.override_parser.types import Override

from turngrid.config.overrides import parse, quoted, typed
from turngrid.envs.utils.parent import die_with_parent
from turngrid.records.process.child import child_variables

LAUNCHED = "TURNGRID_LAUNCHED"  # environment variable of a launched run: do not launch it again
STARTED = time.strftime("%Y-%m-%d_%H-%M-%S")  # group of runs without a sweep or grid
WATCHED = ("tracking.group", "tracking.run_name")  # keys for trackers, not part of a run's identity


@dataclass(frozen=True)
class Run:
    """One run of a launch. ``number`` counts from 1; ``label`` is its name in messages."""

    number: int
    overrides: tuple[str, ...]
    label: str

    @property
    def identity(self) -> list[str]:
        """Return the overrides without those for trackers."""
        return [text for text in self.overrides if _key(text) not in WATCHED]


def runs_of(job_overrides: Sequence[Sequence[str]], group: str) -> list[Run]:
    """Return the runs of a launch; ``group`` is their tracker group unless they set one."""
    shared = set.intersection(*map(set, job_overrides)) if len(job_overrides) > 1 else set()
    runs = []
    for number, overrides in enumerate(job_overrides, 1):
        name = " ".join(_different(overrides, shared)) if len(job_overrides) > 1 else ""
        runs.append(Run(number, (*overrides, *for_trackers(overrides, group, name)), label(overrides, shared)))
    return runs


def for_trackers(overrides: Sequence[str], group: str, name: str) -> list[str]:
    """Return overrides that set a run's tracker group and name, if these are not set."""
    typed = [_key(text) for text in overrides]
    values = dict(zip(WATCHED, (group, name), strict=True))
    wanted = {key: value.replace("${", r"\${") for key, value in values.items() if value and key not in typed}
    return [f"{key}={quoted(value)}" for key, value in wanted.items()]


def _key(override: str) -> str:
    return override.lstrip("+~").split("=")[0]


def label(overrides: Sequence[str], shared: Iterable[str] = ()) -> str:
    """Return a run's label in its sweep, or the overrides that differ between runs."""
    named = [override.value() for override in parse(overrides) if override.key_or_group == "tracking.run_name"]
    return str(named[-1]) if named else shlex.join(_different(overrides, shared))


def _different(overrides: Sequence[str], shared: Iterable[str]) -> list[str]:
    own = [text for text in overrides if text not in shared and _key(text) not in WATCHED]
    return [plain(override) for override in parse(own or overrides)]


def plain(override: Override) -> str:
    """Return an override without the quotes and backslashes that Hydra needs in a text."""
    value = override.value()
    return f"{override.key_or_group}={value}" if isinstance(value, str) else typed(override)


def command(run: Run, config_dir: str | None = None) -> list[str]:
    """Return the command of a run; ``-P`` ignores modules of the working folder."""
    flags = ["--config-dir", str(Path(config_dir).absolute())] if config_dir else []
    return [sys.executable, "-P", "-m", "turngrid.train", *flags, *run.overrides]


def call(arguments: Sequence[str], **variables: str) -> int:
    """Run a command and return its exit code. The command ends if this process ends."""
    environment = child_variables(variables)
    return subprocess.run(arguments, check=False, env=environment, preexec_fn=die_with_parent).returncode
