"""What SLURM knows of jobs: ``squeue`` while they are in its memory, then ``sacct`` where there is accounting."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

TIMEOUT_SECONDS = 60.0
WAITING = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD")
RUNNING = ("RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")
UNKNOWN_JOB = "Invalid job id"


class SlurmSilent(RuntimeError):
    """SLURM's commands do not answer; the message is what they said."""


@dataclass(frozen=True)
class JobState:
    """``state``: SLURM's word. ``where``: the nodes, or the reason for waiting. ``name``: of the job."""

    state: str
    where: str = ""
    name: str = ""

    @property
    def alive(self) -> bool:
        return self.state in (*WAITING, *RUNNING)


def states(job_ids: Iterable[str]) -> dict[str, JobState]:
    """The state of each job, such as ``17`` or ``17_0``; those that SLURM knows nothing of are not there.

    Raises:
        SlurmSilent: SLURM cannot be asked right now.
    """
    wanted = set(job_ids)
    arrays = sorted({job_id.split("_")[0] for job_id in wanted})
    found = {job_id: state for array in arrays for job_id, state in _squeue(array).items() if job_id in wanted}
    if wanted - set(found):
        found = {job_id: state for job_id, state in _sacct(arrays).items() if job_id in wanted} | found
    return found


def _squeue(array: str) -> dict[str, JobState]:
    """One question an array: a single unknown id makes squeue forget the others."""
    done = _ask(["squeue", "--noheader", "--array", "--states=all", f"--jobs={array}", "--format=%i|%T|%R|%j"])
    if done.returncode and UNKNOWN_JOB not in done.stderr:
        raise SlurmSilent(" ".join(done.stderr.split()) or f"squeue ended with exit code {done.returncode}")
    return {job_id: JobState(state, where.strip("()"), name) for job_id, state, where, name in _lines(done.stdout)}


def _sacct(arrays: Sequence[str]) -> dict[str, JobState]:
    """Nothing where SLURM keeps no accounts."""
    try:
        fields = "--format=JobID,State,NodeList,JobName"
        done = _ask(["sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={','.join(arrays)}", fields])
    except SlurmSilent:
        return {}
    return {job_id: JobState(state.split(" ")[0], where, name) for job_id, state, where, name in _lines(done.stdout)}


def _lines(text: str) -> list[list[str]]:
    return [line.split("|", 3) for line in text.splitlines() if line.count("|") >= 3]


def _ask(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SlurmSilent(str(error)) from error
