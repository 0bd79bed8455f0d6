"""What a job of SLURM's does: one run, as a process of its own; on several nodes, with a Ray over all of them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import submitit

from envs.utils.parent import die_with_parent
from train.launch import ray_cluster

TOLD_TO_END = (-signal.SIGTERM, -signal.SIGUSR2)
MERCY_SECONDS = 180.0  # more than any cluster's KillWait


class Job(submitit.helpers.Checkpointable):  # type: ignore[misc]
    """Runs a command; submitit puts the job back into the queue before its time is up, and then it runs again.

    Args:
        nodes, gpus, cpus: of the job; ``gpus`` and ``cpus`` of each node, None: SLURM's own number.
        environment: beside the job's own.
        again: further arguments of the command where the job has come back into the queue.
        meeting: a folder that all nodes see, for jobs of several nodes.
    """

    def __init__(
        self,
        meeting: Path,
        environment: Mapping[str, str],
        again: Sequence[str] = (),
        nodes: int = 1,
        gpus: int | None = None,
        cpus: int | None = None,
    ) -> None:
        self.meeting, self.environment, self.again = meeting, dict(environment), tuple(again)
        self.nodes, self.gpus, self.cpus = nodes, gpus, cpus

    def __call__(self, command: Sequence[str]) -> int:
        """The exit code of the command; 0 on every node but the first."""
        os.environ.update(self.environment)
        os.environ.pop("PYTHONSAFEPATH", None)  # for this process alone; its children say -P themselves
        restarts = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
        command = [*command, *(self.again if restarts else ())]
        job = submitit.JobEnvironment()
        if self.nodes == 1:
            return _alone(command, ray_cluster.temporary_folder())
        place = self.meeting / f"{job.job_id}.{restarts}.ray"
        cluster = ray_cluster.Cluster(place, self.nodes, self.gpus, self.cpus)
        if job.global_rank > 0:
            cluster.serve()
            return 0
        with cluster.head() as variables:
            return _run(command, variables)


def _alone(command: Sequence[str], folder: Path) -> int:
    """Ray's logs stay where the run has failed, and not where its time was up."""
    folder.mkdir(mode=0o700)
    print(f"turngrid: Ray's temporary folder is {folder}", flush=True)
    code = 0
    try:
        code = _run(command, {"RAY_TMPDIR": str(folder)})
        return code
    finally:
        if code == 0:
            shutil.rmtree(folder, ignore_errors=True)


def _run(command: Sequence[str], variables: Mapping[str, str]) -> int:
    """SLURM signals every process of a job. A run that was told to end says nothing of how it went: then this process
    waits for its own signal, which puts the job back into the queue or kills it."""
    done = subprocess.run(
        list(command),
        check=False,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        preexec_fn=die_with_parent,
    )
    if done.returncode in TOLD_TO_END:
        time.sleep(MERCY_SECONDS)
    return done.returncode
