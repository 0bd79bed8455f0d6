"""Launchers of runs (``cluster.launcher``): this process, parallel processes, or SLURM jobs.

A run that fails does not stop the others.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from omegaconf import DictConfig

from turngrid.config import machine
from turngrid.config.errors import ConfigError
from turngrid.train.launch import one_run
from turngrid.train.launch.one_run import LAUNCHED, STARTED, Run

HERE, SLURM, PARALLEL = "here", "slurm", "local_parallel"


Launcher = Callable[[Sequence[Run]], list[str]]  # starts runs and returns a line for each that failed


def elsewhere(config: DictConfig) -> bool:
    """Return whether a launcher must start a run of this config; estimates are always made here."""
    return config.cluster.launcher != HERE and not _estimates(config) and LAUNCHED not in os.environ


def _estimates(config: DictConfig) -> bool:
    return bool(config.estimate or config.estimate_gpu)


def launcher(config: DictConfig, config_dir: str | None) -> Launcher:
    """Return the launcher of ``cluster.launcher``.

    Raises:
        ConfigError: it does not work on this machine.
    """
    name = config.cluster.launcher
    folder = Path(config.output_dir).expanduser().absolute() / name
    if name == HERE:
        if not _estimates(config):
            machine.check(config)  # refuse it once here, instead of in each run
        return partial(_one_by_one, config_dir=config_dir)
    if name == PARALLEL:
        from turngrid.train.launch.parallel import run_all

        machine.check_gpus(config)
        return partial(run_all, folder / STARTED, devices(config), config_dir=config_dir)
    if shutil.which("sbatch") is None or shutil.which("srun") is None:
        raise ConfigError(
            f"cluster={config.cluster.name} submits jobs and this machine has no sbatch: start it on a login node"
        )
    check_slurm(config)
    from turngrid.train.launch.slurm import launch

    return partial(launch, config.cluster.slurm, folder, config_dir=config_dir)


def _one_by_one(runs: Sequence[Run], config_dir: str | None) -> list[str]:
    failed = []
    for run in runs:
        print(f"\nturngrid: run {run.number}: {run.label}", file=sys.stderr, flush=True)
        if code := one_run.call(one_run.command(run, config_dir)):
            failed.append(f"{run.label} (exit code {code})")
    return failed


def devices(config: DictConfig) -> list[str | None]:
    """Return the ``CUDA_VISIBLE_DEVICES`` of simultaneous runs; None: unchanged."""
    at_once = config.cluster.runs_at_once
    gpus = machine.gpus() if config.trainer.device == "cuda" else None
    if not gpus:
        return [None] * (at_once or max(2, len(os.sched_getaffinity(0)) // 2))
    each = int(config.trainer.n_gpus_per_node)
    names = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus)))).split(",")
    groups = [",".join(names[start : start + each]) for start in range(0, gpus - each + 1, each)]
    return list(groups[: at_once or len(groups)])


def check_slurm(config: DictConfig) -> None:
    """Check the settings of SLURM.

    Raises:
        ConfigError: SLURM would accept the settings, but they cannot work.
    """
    slurm, name = config.cluster.slurm, config.cluster.name
    if find_spec("submitit") is None:
        raise ConfigError(f"cluster={name} needs submitit: pip install 'turngrid[slurm]'")
    if slurm.signal_delay_s >= 60 * slurm.timeout_min:
        raise ConfigError(
            f"cluster.slurm.signal_delay_s={slurm.signal_delay_s} (seconds) must be less than "
            f"cluster.slurm.timeout_min={slurm.timeout_min} (minutes)"
        )
    if slurm.nodes > 1 and config.trainer.device == "cpu":
        raise ConfigError(
            f"cluster={name} computes on one node and cluster.slurm.nodes={slurm.nodes}; use cluster=slurm_multinode"
        )
    if not isinstance(slurm.additional_parameters or {}, Mapping):
        raise ConfigError("cluster.slurm.additional_parameters: options of sbatch, as in {mail-type: FAIL}")
