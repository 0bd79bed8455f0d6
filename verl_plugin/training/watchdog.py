"""Ends a stage's process when it hangs, so that the run can go on from where it stopped.

verl waits forever for a Ray worker that failed or hangs.
"""

import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from turngrid.envs.utils import stacks
from turngrid.records.process.child import give_reason

EXIT_CODE = 3
BETWEEN = "between two steps"  # weights to the server, records
ENOUGH = 3  # earlier durations of a phase, from which its median is taken
FIRST = 4  # until then a phase may take so many times the least limit


class Watchdog:
    """Watch the phases of a stage, one at a time.

    Args:
        factor: a phase's limit as a multiple of its median duration in this process.
        least: smallest limit in seconds; 4 times that until the phase has ended 3 times.
    """

    def __init__(self, factor: float, least: float) -> None:
        self._factor, self._least = factor, least
        self._durations: dict[str, list[float]] = defaultdict(list)
        self._timer: threading.Timer | None = None
        self._phase, self._since = "start", time.monotonic()

    def start(self, seconds: float) -> None:
        """Begin the start of training, which has a limit of its own.

        A thread waits, since a signal handler does not run while Python waits for Ray.
        """
        why = "no training step began in this time; a Ray worker may have failed to start"
        self._wait(seconds, f"cluster.start_deadline_s={seconds:g}: {why}: see /tmp/ray/session_latest/logs")

    def enter(self, phase: str) -> None:
        now = time.monotonic()
        self._durations[self._phase].append(now - self._since)
        self._phase, self._since = phase, now
        seconds = self.limit(phase)
        self._wait(seconds, f"{phase}: it has not ended in {seconds:.0f} s (cluster.hung_after_s, cluster.hung_factor)")

    def stay_in(self, phase: str) -> None:
        """Enter a phase if it is not the present one: several parts of a step are one phase."""
        if phase != self._phase:
            self.enter(phase)

    @contextmanager
    def within(self, phase: str) -> Iterator[None]:
        """Enter a phase for a block, and the one before it afterwards."""
        before = self._phase
        self.enter(phase)
        yield
        self.enter(before)

    def limit(self, phase: str) -> float:
        durations = self._durations[phase]
        if len(durations) < ENOUGH:
            return FIRST * self._least
        return max(self._least, self._factor * median(durations))

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self, seconds: float, message: str) -> None:
        self.end()
        self._timer = threading.Timer(seconds, _give_up, [message])
        self._timer.daemon = True
        self._timer.start()


def _give_up(message: str) -> None:
    files = stacks.dump()
    reason = f"{message}\nThe stacks of {len(files)} processes are in {files[0].parent}." if files else message
    print(reason, file=sys.stderr, flush=True)
    give_reason(reason)
    os._exit(EXIT_CODE)


current = Watchdog(factor=10, least=1800)  # of this process; a stage replaces it by its own


def begin(factor: float, least: float) -> Watchdog:
    """Watch this process with the limits of a run, from its start on."""
    global current
    current = Watchdog(factor, least)
    current.enter("start")
    return current
