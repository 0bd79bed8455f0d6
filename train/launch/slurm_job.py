"""A SLURM job: one run in a separate process; on several nodes, with a Ray cluster over them.

It is apart from ``slurm``, so that a job's process does not import Hydra.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import submitit

from turngrid.envs.utils.parent import die_with_parent
from turngrid.train.launch import ray_cluster

AGAIN = "fresh=false"  # a requeued job must not put aside what its first attempt has begun
SIGNALLED = (-signal.SIGTERM, -signal.SIGUSR2)
SIGNAL_SECONDS = 180.0  # more than any cluster's KillWait


@dataclass
class Job(submitit.helpers.Checkpointable):  # type: ignore[misc]
    """Runs a command. Before its time is up, submitit requeues the job, which runs it again."""

    meeting: Path  # a folder that all nodes can access, for jobs with several nodes
    environment: Mapping[str, str]  # additional variables
    nodes: int
    gpus: int | None  # of each node; None: SLURM's number
    cpus: int | None  # of each node; None: SLURM's number

    def __call__(self, command: Sequence[str]) -> int:
        """Return the command's exit code; 0 on every node but the first."""
        os.environ.update(self.environment)
        os.environ.pop("PYTHONSAFEPATH", None)  # for this process only; its children have -P
        # SLURM sends it with each signal; submitit logs it, and logging loses what SIGUSR2 raises
        signal.signal(signal.SIGCONT, signal.SIG_DFL)
        restarts = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
        command = [*command, *([AGAIN] if restarts else [])]
        job = submitit.JobEnvironment()
        if self.nodes == 1:
            return _alone(command, ray_cluster.temporary_folder())
        folder = self.meeting / f"{job.job_id}.{restarts}.ray"
        cluster = ray_cluster.Cluster(folder, self.nodes, self.gpus, self.cpus)
        if job.global_rank > 0:
            cluster.serve()
            return 0
        with cluster.head() as variables:
            return _run(command, variables)


def _alone(command: Sequence[str], folder: Path) -> int:
    """Run with a temporary folder for Ray, which is kept if the run failed."""
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
    """Run the command and return its exit code.

    SLURM signals every process of a job. If the run ended by such a signal, this process waits for
    its own, which requeues or kills the job.
    """
    done = subprocess.run(
        list(command),
        check=False,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        preexec_fn=die_with_parent,
    )
    if done.returncode in SIGNALLED:
        time.sleep(SIGNAL_SECONDS)
    return done.returncode
