"""Runs as SLURM jobs: one array job a launch, submitted through submitit."""

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import submitit
from omegaconf import OmegaConf

from turngrid.envs.utils.child_path import child_path
from turngrid.envs.utils.files import write_whole
from turngrid.records.process.child import LAUNCHED
from turngrid.records.process.exit_codes import say
from turngrid.tasks.schema import Slurm
from turngrid.train.launch.one_run import LaunchedRun, command
from turngrid.train.launch.slurm_job import Job

NAME = "turngrid"
RECORD = "runs.json"
ASK_SECONDS = 5.0
STAND_IN = "#!/bin/sh\necho Submitted batch job 1\n"
NOT_SBATCH = ("wait", "lost_after_s", "max_num_timeout")
ANY_CLUSTER = ("nodes", "gpus_per_node", "cpus_per_task", "mem_gb", "timeout_min")  # not submitit's slurm_...
TIMED_OUT = "timed-out too many times"  # submitit's words
Jobs = dict[LaunchedRun, "submitit.Job[int]"]


def launch(slurm: Slurm, folder: Path, runs: Sequence[LaunchedRun], config_dir: str | None) -> list[str]:
    """Submit the runs and wait for them; return a line for each that failed.

    A run whose job of an earlier launch is still in the queue is waited for, not submitted again.
    ``folder`` has logs and records; every node must see it.
    """
    try:
        jobs = still_there(folder, runs)
        jobs |= submit(slurm, folder, [run for run in runs if run not in jobs], config_dir)
    except submitit.core.utils.FailedJobError as error:
        return [f"nothing was submitted: {' '.join(str(error).split())}"]
    if not slurm.wait:
        say("not waiting (cluster.slurm.wait=false); the same command looks for these jobs again")
        return []
    return wait(jobs, float(slurm.lost_after_s))


def submit(slurm: Slurm, folder: Path, runs: Sequence[LaunchedRun], config_dir: str | None) -> Jobs:
    """Submit the runs; raise FailedJobError if sbatch refuses them."""
    if not runs:
        return {}
    jobs = dict(zip(runs, start(slurm, folder, [command(run, config_dir) for run in runs]), strict=True))
    array = jobs[runs[0]].job_id.split("_")[0]
    record = {job.job_id: run.identity for run, job in jobs.items()}  # for a later launch of the same runs
    write_whole(folder / f"{array}_{RECORD}", json.dumps(record, indent=2) + "\n")
    say(f"submitted SLURM job {array}: {len(runs)} run{'s' * (len(runs) > 1)}, {slurm.timeout_min} min each")
    for run, job in jobs.items():
        say(f"  job {job.job_id}: {run.label}")
    say(f"logs: {folder}/{array}_*_log.out")
    say(f"squeue -j {array} shows them, scancel {array} cancels them")
    return jobs


def start(slurm: Slurm, folder: Path, commands: Sequence[Sequence[str]]) -> list[submitit.Job[int]]:
    """Submit one array job with a task for each command, or raise FailedJobError."""
    # PYTHONPATH also for whatever the job starts
    environment = {LAUNCHED: "1", "PYTHONPATH": child_path()}
    job = Job(folder, environment, slurm.nodes, slurm.gpus_per_node, slurm.cpus_per_task)
    jobs = _executor(slurm, folder).map_array(job, commands)
    return [_job_of(folder, job.job_id) for job in jobs]


def _job_of(folder: Path, job_id: str) -> submitit.Job[int]:
    """Return a job by its first task, which runs the command; tasks of other nodes serve Ray."""
    return submitit.SlurmJob(folder, job_id, tasks=[0])


def _executor(slurm: Slurm, folder: Path) -> submitit.AutoExecutor:
    executor = submitit.AutoExecutor(folder, cluster="slurm", slurm_max_num_timeout=slurm.max_num_timeout)
    node: Any = OmegaConf.to_container(slurm, resolve=True)
    settings = {key: value for key, value in node.items() if value is not None and key not in NOT_SBATCH}
    if settings.get("gres"):
        settings.pop("gpus_per_node", None)  # SLURM takes one of them
    path = shlex.quote(child_path())
    settings["setup"] = [
        *settings["setup"],
        f'export PYTHONPATH={path}"${{PYTHONPATH:+:$PYTHONPATH}}"',  # submitit imports what this process would
        "export PYTHONSAFEPATH=1",
        # since 22.05 srun does not take a job's cores by itself
        '[ -z "$SLURM_CPUS_PER_TASK" ] || export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"',
    ]
    named = {key if key in ANY_CLUSTER else f"slurm_{key}": value for key, value in settings.items()}
    executor.update_parameters(name=NAME, tasks_per_node=1, stderr_to_stdout=True, **named)
    return executor


def script(slurm: Slurm, folder: Path, runs: int) -> str:
    """Return the script that ``sbatch`` would get for this many runs.

    submitit writes it only when it submits, so programs that do nothing stand in for SLURM's.
    """
    path = os.environ["PATH"]
    with TemporaryDirectory() as stand_ins:
        for name in ("sbatch", "srun"):
            (Path(stand_ins) / name).write_text(STAND_IN)
            (Path(stand_ins) / name).chmod(0o700)
        os.environ["PATH"] = f"{stand_ins}:{path}"
        try:
            job = start(slurm, Path(stand_ins), [[]] * runs)[0]
        finally:
            os.environ["PATH"] = path
        text = job.paths.submission_file.read_text(encoding="utf-8")
    return text.strip().replace(stand_ins, str(folder))


def still_there(folder: Path, runs: Sequence[LaunchedRun]) -> Jobs:
    """Return the runs that an earlier launch submitted and that SLURM has not ended."""
    earlier: dict[str, str] = {}  # a run's overrides -> its last job
    for file in sorted(folder.glob(f"*_{RECORD}"), key=lambda path: path.stat().st_mtime):
        recorded = json.loads(file.read_text(encoding="utf-8"))
        earlier |= {json.dumps(overrides): job_id for job_id, overrides in recorded.items()}
    known = {run: earlier[json.dumps(run.identity)] for run in runs if json.dumps(run.identity) in earlier}
    alive = queue() if known else set()
    if alive is None:
        raise submitit.core.utils.FailedJobError("squeue does not answer")
    jobs = {run: _job_of(folder, job_id) for run, job_id in known.items() if job_id in alive}
    for run, job in jobs.items():
        say(f"job {job.job_id} of an earlier launch is in the queue: {run.label}")
    return jobs


def queue() -> set[str] | None:
    """Return this user's jobs that wait or run, by id (``17_0``); None if SLURM does not answer."""
    command = ["squeue", "--me", "--noheader", "--array", "--format=%i"]
    try:
        return set(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.split())
    except (OSError, subprocess.SubprocessError):
        return None


def wait(jobs: Mapping[LaunchedRun, submitit.Job[int]], lost_after_s: float) -> list[str]:
    """Wait for all jobs and return a line for each that failed.

    submitit asks only ``sacct``, so without accounting it would wait for a cancelled job forever.
    Here a job has failed after ``lost_after_s`` out of the queue without a result.
    """
    left, failed = dict(jobs), []
    seen = dict.fromkeys(jobs, time.monotonic())  # when SLURM last had the job in its queue
    try:
        say(f"waiting for {len(left)} job{'s' * (len(left) != 1)}; Ctrl-C ends the wait, not the jobs")
        while left:
            alive, now = queue(), time.monotonic()
            for run, job in list(left.items()):
                seen[run] = now if alive is None or job.job_id in alive else seen[run]
                code, how = _end(job) or (1, "left no result" * (now - seen[run] >= lost_after_s))
                if how:
                    del left[run]
                    say(f"job {job.job_id} {how}: {run.label} ({len(jobs) - len(left)} of {len(jobs)})")
                    failed += [f"{run.label} ({how}; {job.paths.stdout})"] if code else []
            if left:
                time.sleep(ASK_SECONDS)
    except KeyboardInterrupt:
        arrays = sorted({job.job_id.split("_")[0] for job in left.values()})
        say(f"no longer waiting; the jobs go on. To cancel them: scancel {' '.join(arrays)}")
        say("the same command waits for them again")
        raise
    return failed


def _end(job: submitit.Job[int]) -> tuple[int, str] | None:
    """Return the exit code of a job and how it ended; None if it has no result."""
    result = Path(job.paths.result_pickle)
    if not result.parent.exists() or result not in result.parent.iterdir():  # listing refreshes a network file system
        return None
    try:
        code = int(job.result())
    except (submitit.core.utils.UncompletedJobError, EOFError) as error:
        if TIMED_OUT in str(error):
            return 1, "ran out of time too often (cluster.slurm.max_num_timeout)"
        return 1, "could not start its run"
    if code == 0:
        return 0, "ended well"
    return code, f"failed with exit code {code}" if code > 0 else f"was ended by {signal.Signals(-code).name}"
