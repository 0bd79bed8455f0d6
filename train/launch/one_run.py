"""The runs of a launch: their overrides, labels and commands.

verl, Ray and wandb keep global state, so each run is ``python -m train`` in a separate process.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from turngrid.config.overrides import parse, quoted
from turngrid.envs.utils.parent import die_with_parent
from turngrid.records.process.child import child_variables

LAUNCHED = "TURNGRID_LAUNCHED"  # in the environment of a launched run: it computes where it is
STARTED = time.strftime("%Y-%m-%d_%H-%M-%S")  # group of the runs that have no sweep or grid
WATCHED = ("tracking.group", "tracking.run_name")  # for trackers; no part of what a run is


@dataclass(frozen=True)
class Run:
    """One run of a launch; ``number`` counts from 1, ``label`` is how messages name it."""

    number: int
    overrides: tuple[str, ...]
    label: str

    @property
    def identity(self) -> list[str]:
        """Return the overrides without those for trackers."""
        return [text for text in self.overrides if _key(text) not in WATCHED]


def runs_of(job_overrides: Sequence[Sequence[str]], group: str) -> list[Run]:
    """Return the runs of a launch; ``group`` is their group in trackers unless they name one."""
    shared = set.intersection(*map(set, job_overrides)) if len(job_overrides) > 1 else set()
    runs = []
    for number, overrides in enumerate(job_overrides, 1):
        name = " ".join(_different(overrides, shared)) if len(job_overrides) > 1 else ""
        runs.append(Run(number, (*overrides, *for_trackers(overrides, group, name)), label(overrides, shared)))
    return runs


def for_trackers(overrides: Sequence[str], group: str, name: str) -> list[str]:
    """Return overrides with a run's group and name in trackers, if it lacks them."""
    typed = [_key(text) for text in overrides]
    values = dict(zip(WATCHED, (group, name), strict=True))
    return [f"{key}={_literal(value)}" for key, value in values.items() if value and key not in typed]


def _literal(text: str) -> str:
    """Quote a value, so that quotes and signs of interpolations in it stand for themselves."""
    return quoted(text.replace("${", r"\${"))


def _key(override: str) -> str:
    return override.lstrip("+~").split("=")[0]


def label(overrides: Sequence[str], shared: Iterable[str] = ()) -> str:
    """Return a run's name in its sweep, or the overrides that not all runs share."""
    named = [override.value() for override in parse(overrides) if override.key_or_group == "tracking.run_name"]
    return str(named[-1]) if named else shlex.join(_different(overrides, shared))


def _different(overrides: Sequence[str], shared: Iterable[str]) -> Sequence[str]:
    return [text for text in overrides if text not in shared and _key(text) not in WATCHED] or overrides


def command(run: Run, config_dir: str | None = None) -> list[str]:
    """Return the command of a run; ``-P`` ignores modules of the working folder."""
    place = ["--config-dir", str(Path(config_dir).absolute())] if config_dir else []
    return [sys.executable, "-P", "-m", "turngrid.train", *place, *run.overrides]


def call(arguments: Sequence[str], **variables: str) -> int:
    """Run a command that ends with this process and return its exit code."""
    environment = child_variables(variables)
    return subprocess.run(arguments, check=False, env=environment, preexec_fn=die_with_parent).returncode
