"""Launchers of runs (``cluster.launcher``): this process, parallel processes, or SLURM jobs.

A run that fails does not stop the others.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from omegaconf import DictConfig

from turngrid.config import asynchronous, machine
from turngrid.config.errors import ConfigError
from turngrid.records.process.child import LAUNCHED, started
from turngrid.records.process.exit_codes import say
from turngrid.tasks.run import Run
from turngrid.train.launch import one_run
from turngrid.train.launch.one_run import LaunchedRun, command

HERE, SLURM, PARALLEL = "here", "slurm", "local_parallel"
POLL_SECONDS = 0.2
STARTED = time.strftime("%Y-%m-%d_%H-%M-%S")  # name of a folder of logs

Launcher = Callable[[Sequence[LaunchedRun]], list[str]]  # starts runs and returns a line for each that failed


def elsewhere(config: DictConfig) -> bool:
    """Return whether a launcher must start a run of this config; estimates are always made here."""
    estimates = config.estimate or config.estimate_gpu
    return config.cluster.launcher != HERE and not estimates and LAUNCHED not in os.environ


def launcher(configs: Sequence[DictConfig], config_dir: str | None) -> Launcher:
    """Return the launcher of ``cluster.launcher``; ConfigError if it cannot work here."""
    config = configs[0]  # all runs have one cluster
    name = config.cluster.launcher
    folder = Path(config.output_dir).expanduser().absolute() / name
    if name == HERE:
        return partial(one_by_one, config_dir=config_dir)
    if name == PARALLEL:
        return partial(run_all, folder / STARTED, devices(configs), config_dir=config_dir)
    if shutil.which("sbatch") is None or shutil.which("srun") is None:
        reason = "submits jobs and this machine has no sbatch"
        raise ConfigError(f"cluster={config.cluster.name} {reason}: start it on a login node")
    check_slurm(config)
    from turngrid.train.launch.slurm import launch

    return partial(launch, config.cluster.slurm, folder, config_dir=config_dir)


def one_by_one(runs: Sequence[LaunchedRun], config_dir: str | None) -> list[str]:
    failed = []
    for run in runs:
        print(f"\nturngrid: run {run.number} of {len(runs)}: {run.label}", file=sys.stderr, flush=True)
        if code := one_run.call(command(run, config_dir)):
            failed.append(f"{run.label} (exit code {code})")
    return failed


def devices(configs: Sequence[DictConfig]) -> list[str | None]:
    """Return the ``CUDA_VISIBLE_DEVICES`` of simultaneous runs; None: unchanged."""
    from turngrid.experiments.cost_estimate.memory import runs_that_fit

    config, at_once = configs[0], configs[0].cluster.runs_at_once
    gpus = machine.gpus() if config.trainer.device == "cuda" else None
    if not gpus:
        cores, fitting = len(os.sched_getaffinity(0)), min(runs_that_fit(Run(each)) for each in configs)
        return [None] * int(at_once or min(max(2, cores // 2), fitting))
    each = machine.gpus_of_node(config)
    names = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus)))).split(",")
    groups = [",".join(names[start : start + each]) for start in range(0, gpus - each + 1, each)]
    return list(groups[: at_once or len(groups)])


def check_slurm(config: DictConfig) -> None:
    """Raise ConfigError for settings that SLURM accepts but that cannot work."""
    slurm, name = config.cluster.slurm, config.cluster.name
    if find_spec("submitit") is None:
        raise ConfigError(f"cluster={name} needs submitit: pip install 'turngrid[slurm]'")
    if slurm.signal_delay_s >= 60 * slurm.timeout_min:
        limit = f"cluster.slurm.timeout_min={slurm.timeout_min} (minutes)"
        raise ConfigError(f"cluster.slurm.signal_delay_s={slurm.signal_delay_s} (seconds) must be less than {limit}")
    _check_nodes(config)
    if not isinstance(slurm.additional_parameters or {}, Mapping):
        key = "cluster.slurm.additional_parameters"
        raise ConfigError(f"{key}={slurm.additional_parameters}: no options of sbatch; use {key}={{mail-type: FAIL}}")


def _check_nodes(config: DictConfig) -> None:
    """Raise ConfigError if a job does not ask for the nodes and GPUs that the run computes on."""
    slurm, trainer, on_gpus = config.cluster.slurm, config.trainer, config.trainer.device == "cuda"
    servers = config.actor_rollout_ref.rollout.nnodes if asynchronous.mode(config) == asynchronous.SEPARATE else 0
    alone = config.ray_kwargs.ray_init.address == "local"  # a Ray of one node
    nodes, needed = slurm.nodes, 1 if alone else int(trainer.nnodes + servers)
    if nodes != needed:
        use = f"cluster=slurm_multinode trainer.nnodes={nodes}" if needed == 1 else f"cluster.slurm.nodes={needed}"
        raise ConfigError(f"cluster.slurm.nodes={nodes}: the run computes on {needed}; use {use}")
    gpus, each = None if slurm.gres or not on_gpus else slurm.gpus_per_node, machine.gpus_of_node(config)
    if gpus is not None and gpus < each:
        key = "cluster.slurm.gpus_per_node"
        raise ConfigError(f"{key}={gpus}: the run computes on {each} of each node; use {key}={each}")


class Going(NamedTuple):
    """A run in a process of its own."""

    run: LaunchedRun
    device: str | None  # ``CUDA_VISIBLE_DEVICES``; None: unchanged
    log: Path
    process: subprocess.Popen[bytes]
    since: float


def run_all(
    folder: Path, devices: Sequence[str | None], runs: Sequence[LaunchedRun], config_dir: str | None = None
) -> list[str]:
    """Run all, as many at once as there are ``devices``; return a line for each that failed."""
    folder.mkdir(parents=True, exist_ok=True)
    say(f"{len(runs)} runs, {len(devices)} at a time; their output goes to {folder}/")
    waiting, free, failed = list(runs), list(devices), []
    going: list[Going] = []
    try:
        while waiting or going:
            while waiting and free:
                going.append(_started(waiting.pop(0), free.pop(0), folder, config_dir))
            time.sleep(POLL_SECONDS)
            for one in [one for one in going if one.process.poll() is not None]:
                going.remove(one)
                free.append(one.device)
                failed += _ended(one)
    finally:  # after Ctrl-C some are left
        for one in going:
            one.process.terminate()
        for one in going:
            one.process.wait()
    return failed


def _started(run: LaunchedRun, device: str | None, folder: Path, config_dir: str | None) -> Going:
    log = folder / f"{run.number}.log"
    variables = {LAUNCHED: "1"} if device is None else {LAUNCHED: "1", "CUDA_VISIBLE_DEVICES": device}
    with log.open("ab") as output:
        process = started(command(run, config_dir), output, variables)
    say(f"run {run.number} starts: {run.label}")
    return Going(run, device, log, process, time.monotonic())


def _ended(one: Going) -> list[str]:
    """Report the end of a run; return a line if it failed."""
    code, run = one.process.returncode, one.run
    how = "ended well" if code == 0 else f"failed with exit code {code}"
    say(f"run {run.number} {how} after {(time.monotonic() - one.since) / 60:.1f} min: {run.label}")
    return [f"{run.label} (exit code {code}; {one.log})"] if code else []
