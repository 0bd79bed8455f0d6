"""Runs as jobs of SLURM's: one array job a launch, through submitit, and a wait that ends whatever becomes of them."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import submitit
from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf, SlurmQueueConf

from records.process.child import child_variables
from records.process.exit_codes import say
from train.launch.launching import LAUNCHED, STARTED, Run, command, failures, runs_of
from train.launch.slurm_job import Job
from train.launch.slurm_queue import SlurmSilent, states
from train.launch.slurm_wait import Waiting, wait

RECORD = "runs.json"
STAND_IN = "#!/bin/sh\necho Submitted batch job 1\n"
NOT_SBATCH = ("submitit_folder", "max_num_timeout", "_target_", "launch")


def launch(params: Mapping[str, Any], job_overrides: Sequence[Sequence[str]], first: int) -> list[int]:
    """Submit the runs and wait for them; those that fail are in ``failures``.

    A run whose job of an earlier launch is still in the queue is not submitted again, but waited for.

    Args:
        params: hydra-submitit-launcher's, those of ``config.schema.Slurm``, and ``folder``, which every node must see.

    Returns:
        exit codes; nothing where nobody waits.
    """
    folder = Path(params["folder"])
    runs = runs_of(job_overrides, first, STARTED)
    try:
        waiting = still_there(folder, runs)
        waiting += submit(params, folder, [run for run in runs if run not in [known.run for known in waiting]])
    except (submitit.core.utils.FailedJobError, SlurmSilent) as error:
        failures.append(f"nothing was submitted: {' '.join(str(error).split())}")
        return []
    if not params["wait"]:
        say("not waiting (cluster.slurm.wait=false); the same command looks for these jobs again")
        return []
    return wait(waiting, float(params["lost_after_s"]))


def submit(params: Mapping[str, Any], folder: Path, runs: Sequence[Run]) -> list[Waiting]:
    """Raises: FailedJobError: sbatch has refused them."""
    if not runs:
        return []
    jobs = start(params, folder, [command(run, params["config_dir"]) for run in runs])
    waiting = [Waiting(run, job) for run, job in zip(runs, jobs, strict=True)]
    array = jobs[0].job_id.split("_")[0]
    lines = {item.job_id: item.run.what for item in waiting}  # for a later launch of the same runs
    (folder / f"{array}_{RECORD}").write_text(json.dumps(lines, indent=2) + "\n", encoding="utf-8")
    limit = f", at most {params['array_parallelism']} at once" if params["array_parallelism"] < len(runs) else ""
    say(f"submitted SLURM job {array}: {len(runs)} run{'s' * (len(runs) > 1)}{limit}, {params['timeout_min']} min each")
    for item in waiting:
        say(f"  job {item.job_id}: {item.run.label}")
    say(f"logs: {folder}/{array}_*_log.out")
    say(f"squeue -j {array} shows them, scancel {array} cancels them")
    return waiting


def start(params: Mapping[str, Any], folder: Path, commands: Sequence[Sequence[str]]) -> list[submitit.Job[int]]:
    """One array job with a task a command. Raises: FailedJobError: sbatch has refused it."""
    # PYTHONPATH also for whatever the job starts; the marker makes the front door compute where it is
    environment = {LAUNCHED: "1", "PYTHONPATH": child_variables({})["PYTHONPATH"]}
    again = ["fresh=false"]  # what the first attempt has begun is not to be put aside
    job = Job(folder, environment, again, params["nodes"], params["gpus_per_node"], params["cpus_per_task"])
    jobs = _executor(params, folder).map_array(job, commands)
    return [_job_of(folder, job.job_id) for job in jobs]


def script(params: Mapping[str, Any], runs: int) -> str:
    """The script that ``sbatch`` would get for so many runs.

    submitit shows it only when it submits, so it submits to programs that stand in for SLURM's.
    """
    with TemporaryDirectory() as folder:
        for name in ("sbatch", "srun"):
            (Path(folder) / name).write_text(STAND_IN)
            (Path(folder) / name).chmod(0o700)
        path = os.environ["PATH"]
        os.environ["PATH"] = f"{folder}:{path}"
        try:
            job = start(params, Path(folder), [[]] * runs)[0]
        finally:
            os.environ["PATH"] = path
        text = job.paths.submission_file.read_text(encoding="utf-8")
    return text.strip().replace(folder, str(params["folder"]))


def _job_of(folder: Path, job_id: str) -> submitit.Job[int]:
    """On several nodes the first task is the one with the run, and the only one to wait for."""
    return submitit.SlurmJob(folder, job_id, tasks=[0])


def _executor(params: Mapping[str, Any], folder: Path) -> submitit.AutoExecutor:
    executor = submitit.AutoExecutor(folder, cluster="slurm", slurm_max_num_timeout=params["max_num_timeout"])
    shared = BaseQueueConf.__dataclass_fields__
    known = {*SlurmQueueConf.__dataclass_fields__, "srun_args"} - {*NOT_SBATCH}
    settings = {key: params[key] for key in known if params[key] is not None}
    if settings.get("gres"):
        settings.pop("gpus_per_node", None)  # SLURM takes one of them
    settings["setup"] = [*settings["setup"], *_own_setup()]
    settings["stderr_to_stdout"] = True
    executor.update_parameters(**{key if key in shared else f"slurm_{key}": settings[key] for key in settings})
    return executor


def _own_setup() -> list[str]:
    """submitit unpickles our job: it must find our modules, and not those of the folder that the job starts in."""
    root = shlex.quote(str(Path(__file__).resolve().parents[2]))
    return [
        f'export PYTHONPATH={root}"${{PYTHONPATH:+:$PYTHONPATH}}"',
        "export PYTHONSAFEPATH=1",
        # since 22.05 srun does not take a job's cores by itself
        '[ -z "$SLURM_CPUS_PER_TASK" ] || export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"',
    ]


def still_there(folder: Path, runs: Sequence[Run]) -> list[Waiting]:
    """Those of the runs that have a job from an earlier launch, waiting or running.

    Raises:
        SlurmSilent: SLURM cannot be asked.
    """
    earlier: dict[str, str] = {}  # what a run is -> its last job
    for file in sorted(folder.glob(f"*_{RECORD}"), key=lambda path: path.stat().st_mtime):
        recorded = json.loads(file.read_text(encoding="utf-8"))
        earlier |= {json.dumps(what): job_id for job_id, what in recorded.items()}
    jobs = {run: earlier[json.dumps(run.what)] for run in runs if json.dumps(run.what) in earlier}
    known = [Waiting(run, _job_of(folder, job_id)) for run, job_id in jobs.items()]
    open_ones = [item for item in known if not item.result.exists()]
    there = states(item.job_id for item in open_ones) if open_ones else {}
    found = [item for item in open_ones if item.job_id in there and there[item.job_id].alive]
    for item in found:
        say(f"job {item.job_id} of an earlier launch is {there[item.job_id].state.lower()}: {item.run.label}")
    return found
