"""Waits for SLURM jobs: for submitit's results, or until SLURM has ended a job without one.

submitit asks only ``sacct``, so without accounting it would wait for a lost job forever.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import submitit

from turngrid.records.process.exit_codes import say
from turngrid.train.launch.one_run import Run

ASK_SECONDS = 5.0
SILENT_SECONDS = 1800.0  # seconds without an answer of SLURM after which the wait ends
TIMED_OUT = "timed-out too many times"  # submitit's words
OVER = ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT")


class State(NamedTuple):
    """SLURM's state of a job, and the job's nodes or its reason for waiting."""

    word: str
    where: str


@dataclass
class Waiting:
    """A run and its job; ``shown``: the last shown state, ``lost``: when it was first over."""

    run: Run
    job: submitit.Job[int]
    shown: str = ""
    lost: float | None = None

    @property
    def job_id(self) -> str:
        return str(self.job.job_id)

    @property
    def log(self) -> Path:
        return Path(self.job.paths.stdout)


def queue() -> dict[str, State] | None:
    """Return states of this user's jobs by id (``17_0``); None if SLURM does not answer."""
    command = ["squeue", "--me", "--noheader", "--array", "--states=all", "--format=%i|%T|%R"]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    fields = (line.split("|", 2) for line in shown.splitlines() if line.count("|") >= 2)
    return {job_id: State(word, where.strip("()")) for job_id, word, where in fields}


def is_alive(state: State | None) -> bool:
    """Return whether a job waits or runs; PREEMPTED goes back into the queue."""
    return state is not None and state.word not in OVER


def wait(waiting: Sequence[Waiting], lost_after_s: float) -> list[str]:
    """Wait for all jobs and return a line for each that failed."""
    left, failed, answered = list(waiting), [], time.monotonic()
    try:
        while left:
            states, now = queue(), time.monotonic()
            answered = answered if states is None else now
            for item in list(left):
                code, how = _outcome(item) or _lost(item, states, now, lost_after_s) or (None, "")
                if not how and now - answered > SILENT_SECONDS:
                    code, how = 1, f"may go on: SLURM has not answered for {SILENT_SECONDS / 60:g} min"
                if how:
                    left.remove(item)
                    say(f"job {item.job_id} {how}: {item.run.label} ({len(waiting) - len(left)} of {len(waiting)})")
                    failed += [f"{item.run.label} ({how}; {item.log})"] if code else []
            if left:
                time.sleep(ASK_SECONDS)
    except KeyboardInterrupt:
        arrays = sorted({item.job_id.split("_")[0] for item in left})
        say(f"no longer waiting; the jobs go on. To cancel them: scancel {' '.join(arrays)}")
        say("the same command waits for them again")
        raise
    return failed


def _outcome(item: Waiting) -> tuple[int, str] | None:
    """Return the exit code of a job with a result, and how it ended."""
    result = Path(item.job.paths.result_pickle)
    with suppress(OSError):
        list(result.parent.iterdir())  # refreshes a network file system's cache
    if not result.exists():
        return None
    try:
        code = int(item.job.result())
    except (submitit.core.utils.UncompletedJobError, EOFError) as error:
        if TIMED_OUT in str(error):
            return 1, "ran out of time too often (cluster.slurm.max_num_timeout)"
        return 1, "could not start its run"
    if code == 0:
        return 0, "ended well"
    return code, f"failed with exit code {code}" if code > 0 else f"was ended by {signal.Signals(-code).name}"


def _lost(item: Waiting, states: dict[str, State] | None, now: float, lost_after_s: float) -> tuple[int, str] | None:
    """Return how a job ended if it has been over or unknown for so long without a result."""
    if states is None:
        return None
    state = states.get(item.job_id)
    if state and is_alive(state):
        item.lost = None
        if state.word != item.shown:
            say(f"job {item.job_id} is {state.word.lower()} ({state.where}): {item.run.label}")
            item.shown = state.word
        return None
    item.lost = item.lost or now
    known = f"SLURM says {state.word}" if state else "SLURM does not know it"
    return (1, f"left no result ({known})") if now - item.lost >= lost_after_s else None
