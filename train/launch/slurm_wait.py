"""The wait for SLURM's jobs. It ends for each: with its result, or with SLURM's word that there will be none."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import submitit

from records.process.exit_codes import say
from train.launch.launching import Run, failures
from train.launch.slurm_queue import RUNNING, JobState, SlurmSilent, states

LOOK_SECONDS = 1.0
ASK_SECONDS, ASK_SELDOM_SECONDS = 2.0, 30.0  # at first, and in a long wait
SILENT_SECONDS = 1800.0  # of SLURM's silence after which the wait is given up
CLOCK_OUT = "timed-out too many times"  # submitit's words
GONE = JobState("")


@dataclass
class Waiting:
    """A run and its job. ``told``: the state last shown; ``ended``: when SLURM first said that it is over."""

    run: Run
    job: submitit.Job[int]
    told: str = ""
    ended: float | None = None

    @property
    def job_id(self) -> str:
        return str(self.job.job_id)

    @property
    def result(self) -> Path:
        return Path(self.job.paths.result_pickle)

    @property
    def log(self) -> Path:
        return Path(self.job.paths.stdout)


def wait(waiting: Sequence[Waiting], lost_after_s: float) -> list[int]:
    """Exit codes in order, 1 for a job that left none; each that is not 0 has a line in ``failures``."""
    watch = _Watch(lost_after_s)
    codes: dict[str, int] = {}
    try:
        while left := [item for item in waiting if item.job_id not in codes]:
            for item, code, how in watch.look(left):
                codes[item.job_id] = code
                say(f"job {item.job_id} {how}: {item.run.label} ({len(codes)} of {len(waiting)})")
                if code:
                    failures.append(f"{item.run.label} ({how}; {item.log})")
            if len(codes) < len(waiting):
                time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        left_ids = sorted({item.job_id.split("_")[0] for item in waiting if item.job_id not in codes})
        say(f"no longer waiting; the jobs go on. To cancel them: scancel {' '.join(left_ids)}")
        say("the same command waits for them again")
        raise
    return [codes[item.job_id] for item in waiting]


class _Watch:
    """Looks for results every second and asks SLURM less and less often, since many may be asking."""

    def __init__(self, lost_after_s: float) -> None:
        self._lost_after_s = lost_after_s
        self._start = self._answered = time.monotonic()
        self._next = 0.0

    def look(self, waiting: Sequence[Waiting]) -> list[tuple[Waiting, int, str]]:
        """Those that are over now, with their exit code and how they ended."""
        over = [(item, *_outcome(item)) for item in waiting if _result_there(item)]
        rest = [item for item in waiting if item not in [item for item, _, _ in over]]
        if rest and time.monotonic() >= self._next:
            over += self._ask(rest)
        return over

    def _ask(self, waiting: Sequence[Waiting]) -> list[tuple[Waiting, int, str]]:
        now = time.monotonic()
        self._next = now + min(ASK_SELDOM_SECONDS, max(ASK_SECONDS, (now - self._start) / 20))
        try:
            known = states(item.job_id for item in waiting)
        except SlurmSilent as error:
            if now - self._answered < SILENT_SECONDS:
                return []
            how = f"may go on: SLURM has not answered for {SILENT_SECONDS / 60:g} min ({error})"
            return [(item, 1, how) for item in waiting]
        self._answered = now
        judged = [(item, self._judge(item, known.get(item.job_id, GONE), now)) for item in waiting]
        return [(item, 1, how) for item, how in judged if how]

    def _judge(self, item: Waiting, state: JobState, now: float) -> str:
        """How a job without a result ended; nothing while it may still end well."""
        if state.alive:
            item.ended = None
            _tell(item, state)
            return ""
        item.ended = item.ended or now
        patience = LOOK_SECONDS if state.state == "CANCELLED" else self._lost_after_s
        return _verdict(state) if now - item.ended >= patience else ""


def _tell(item: Waiting, state: JobState) -> None:
    word = "runs" if state.state in RUNNING else "waits"
    if word != item.told:
        where = "" if state.where in ("", "None") else f" ({state.where})"
        say(f"job {item.job_id} {word}{where}: {item.run.label}")
    item.told = word


def _verdict(state: JobState) -> str:
    if state == GONE:
        return "has vanished: SLURM knows nothing of it and it left no result"
    if state.state == "CANCELLED":
        return "was cancelled"
    if state.state == "TIMEOUT":
        return "ran out of time before it could go back into the queue: raise cluster.slurm.signal_delay_s"
    return f"left no result (SLURM says {state.state})"


def _result_there(item: Waiting) -> bool:
    with suppress(OSError):
        list(item.result.parent.iterdir())  # makes a network file system look again
    return item.result.exists()


def _outcome(item: Waiting) -> tuple[int, str]:
    try:
        code = int(item.job.result())
    except (submitit.core.utils.UncompletedJobError, EOFError) as error:
        if CLOCK_OUT in str(error):
            return 1, "ran out of time too often (cluster.slurm.max_num_timeout)"
        return 1, "could not start its run"
    if code == 0:
        return 0, "ended well"
    return code, f"failed with exit code {code}" if code > 0 else f"was ended by {signal.Signals(-code).name}"
