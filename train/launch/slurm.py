"""Runs as SLURM jobs: one array job a launch, submitted through submitit."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import submitit
from omegaconf import DictConfig, OmegaConf

from turngrid.records.process.child import child_variables
from turngrid.records.process.exit_codes import say
from turngrid.train.launch.one_run import LAUNCHED, Run, command
from turngrid.train.launch.slurm_job import Job
from turngrid.train.launch.slurm_wait import Waiting, is_alive, queue, wait

NAME = "turngrid"
RECORD = "runs.json"
STAND_IN = "#!/bin/sh\necho Submitted batch job 1\n"
NOT_SBATCH = ("wait", "lost_after_s", "max_num_timeout")
ANY_CLUSTER = ("nodes", "gpus_per_node", "cpus_per_task", "mem_gb", "timeout_min")  # not submitit's slurm_...


def launch(slurm: DictConfig, folder: Path, runs: Sequence[Run], config_dir: str | None) -> list[str]:
    """Submit the runs and wait for them; return a line for each that failed.

    A run whose job of an earlier launch is still in the queue is waited for, not submitted again.

    Args:
        slurm: the node ``cluster.slurm``.
        folder: of logs and records; every node must see it.
    """
    try:
        waiting = still_there(folder, runs)
        known = [item.run for item in waiting]
        waiting += submit(slurm, folder, [run for run in runs if run not in known], config_dir)
    except submitit.core.utils.FailedJobError as error:
        return [f"nothing was submitted: {' '.join(str(error).split())}"]
    if not slurm.wait:
        say("not waiting (cluster.slurm.wait=false); the same command looks for these jobs again")
        return []
    return wait(waiting, float(slurm.lost_after_s))


def submit(slurm: DictConfig, folder: Path, runs: Sequence[Run], config_dir: str | None) -> list[Waiting]:
    """Submit the runs.

    Raises:
        FailedJobError: sbatch refuses them.
    """
    if not runs:
        return []
    jobs = start(slurm, folder, [command(run, config_dir) for run in runs])
    waiting = [Waiting(run, job) for run, job in zip(runs, jobs, strict=True)]
    array = jobs[0].job_id.split("_")[0]
    record = {item.job_id: item.run.identity for item in waiting}  # for a later launch of the same runs
    (folder / f"{array}_{RECORD}").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    limit = f", at most {slurm.array_parallelism} at once" if slurm.array_parallelism < len(runs) else ""
    say(f"submitted SLURM job {array}: {len(runs)} run{'s' * (len(runs) > 1)}{limit}, {slurm.timeout_min} min each")
    for item in waiting:
        say(f"  job {item.job_id}: {item.run.label}")
    say(f"logs: {folder}/{array}_*_log.out")
    say(f"squeue -j {array} shows them, scancel {array} cancels them")
    return waiting


def start(slurm: DictConfig, folder: Path, commands: Sequence[Sequence[str]]) -> list[submitit.Job[int]]:
    """Submit one array job with a task for each command.

    Raises:
        FailedJobError: sbatch refuses it.
    """
    # PYTHONPATH also for whatever the job starts
    environment = {LAUNCHED: "1", "PYTHONPATH": child_variables({})["PYTHONPATH"]}
    again = ["fresh=false"]  # a requeued job must not put aside what its first attempt has begun
    job = Job(folder, environment, again, slurm.nodes, slurm.gpus_per_node, slurm.cpus_per_task)
    jobs = _executor(slurm, folder).map_array(job, commands)
    return [_job_of(folder, job.job_id) for job in jobs]


def script(slurm: DictConfig, folder: Path, runs: int) -> str:
    """Return the script that ``sbatch`` would get for this many runs.

    submitit writes the script only when it submits, so stub programs in a temporary folder replace
    SLURM's.
    """
    with TemporaryDirectory() as stand_ins:
        for name in ("sbatch", "srun"):
            (Path(stand_ins) / name).write_text(STAND_IN)
            (Path(stand_ins) / name).chmod(0o700)
        path = os.environ["PATH"]
        os.environ["PATH"] = f"{stand_ins}:{path}"
        try:
            job = start(slurm, Path(stand_ins), [[]] * runs)[0]
        finally:
            os.environ["PATH"] = path
        text = job.paths.submission_file.read_text(encoding="utf-8")
    return text.strip().replace(stand_ins, str(folder))


def _job_of(folder: Path, job_id: str) -> submitit.Job[int]:
    """Return a job by its first task, which runs the command; tasks of other nodes serve Ray."""
    return submitit.SlurmJob(folder, job_id, tasks=[0])


def _executor(slurm: DictConfig, folder: Path) -> submitit.AutoExecutor:
    executor = submitit.AutoExecutor(folder, cluster="slurm", slurm_max_num_timeout=slurm.max_num_timeout)
    node: Any = OmegaConf.to_container(slurm, resolve=True)
    settings = {key: value for key, value in node.items() if value is not None and key not in NOT_SBATCH}
    if settings.get("gres"):
        settings.pop("gpus_per_node", None)  # SLURM takes one of them
    settings["setup"] = [*settings["setup"], *_own_setup()]
    named = {key if key in ANY_CLUSTER else f"slurm_{key}": value for key, value in settings.items()}
    executor.update_parameters(name=NAME, tasks_per_node=1, stderr_to_stdout=True, **named)
    return executor


def _own_setup() -> list[str]:
    """Return shell lines with which submitit finds our modules before the working folder's."""
    root = shlex.quote(str(Path(__file__).resolve().parents[2]))
    return [
        f'export PYTHONPATH={root}"${{PYTHONPATH:+:$PYTHONPATH}}"',
        "export PYTHONSAFEPATH=1",
        # since 22.05 srun does not take a job's cores by itself
        '[ -z "$SLURM_CPUS_PER_TASK" ] || export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"',
    ]


def still_there(folder: Path, runs: Sequence[Run]) -> list[Waiting]:
    """Return those of the runs that an earlier launch submitted and that SLURM has not ended."""
    earlier: dict[str, str] = {}  # a run's overrides -> its last job
    for file in sorted(folder.glob(f"*_{RECORD}"), key=lambda path: path.stat().st_mtime):
        recorded = json.loads(file.read_text(encoding="utf-8"))
        earlier |= {json.dumps(overrides): job_id for job_id, overrides in recorded.items()}
    jobs = {run: earlier[json.dumps(run.identity)] for run in runs if json.dumps(run.identity) in earlier}
    if not jobs:
        return []
    states = queue()
    if states is None:
        raise submitit.core.utils.FailedJobError("squeue does not answer")
    alive = {run: job_id for run, job_id in jobs.items() if is_alive(states.get(job_id))}
    for run, job_id in alive.items():
        say(f"job {job_id} of an earlier launch is {states[job_id].word.lower()}: {run.label}")
    return [Waiting(run, _job_of(folder, job_id)) for run, job_id in alive.items()]
