"""Jobs through our own launcher, with commands that cost nothing in the place of runs."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from turngrid.config.compose import compose
from turngrid.train.launch.one_run import LaunchedRun
from turngrid.train.launch.slurm import Jobs, start

TINY = ("budget=rl_only", "eval.games=2")


def settings(*overrides: str) -> DictConfig:
    """``cluster.slurm`` of ``cluster=slurm`` and more overrides."""
    config = compose(["cluster=slurm", "cluster.slurm.cpus_per_task=1", "cluster.slurm.mem_gb=null", *overrides])
    return config.cluster.slurm


def python(code: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", code, *map(str, arguments)]


def launched(folder: Path, slurm: DictConfig, commands: dict[str, Sequence[str]]) -> Jobs:
    """One array job; the label of each run is its key."""
    jobs = start(slurm, folder, list(commands.values()))
    runs = [LaunchedRun(number, (), label) for number, label in enumerate(commands, 1)]
    return dict(zip(runs, jobs, strict=True))


def front_door(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    """As a shell starts it: in a process group of its own, which Ctrl-C reaches."""
    command = [sys.executable, "-P", "-m", "turngrid.train", *arguments]
    environment = {**os.environ, "COLUMNS": "200"}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    start = {"start_new_session": True, "preexec_fn": _hear_ctrl_c}
    return subprocess.Popen(command, cwd=cwd, env=environment, **streams, **start)


def _hear_ctrl_c() -> None:
    """A shell's background jobs inherit a SIGINT that is ignored, and tests may be one."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
