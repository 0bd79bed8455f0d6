"""Ends a training process that never comes to its first step: verl waits for ever for a Ray worker that cannot start."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

EXIT_CODE = 3

_timer: threading.Timer | None = None


@contextmanager
def begin(seconds: float) -> Iterator[None]:
    """From now on, ``step_began`` must be called within ``seconds``, or this process ends with ``EXIT_CODE``.

    Inside the block by a signal, for that is where the process leaves a copy of itself, and a copy of one with two threads may
    hang; then by a thread, since a signal waits for Python, which may wait for Ray.
    """
    signal.signal(signal.SIGALRM, lambda *_: _give_up(seconds))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _begin_thread(seconds, left)


def _begin_thread(seconds: float, left: float) -> None:
    global _timer
    _timer = threading.Timer(left, _give_up, [seconds])
    _timer.daemon = True
    _timer.start()


def step_began() -> None:
    if _timer is not None:
        _timer.cancel()


def _give_up(seconds: float) -> None:
    print(
        f"no training step began within {seconds:g} s of the start (cluster.start_deadline_s): a worker of Ray's may have "
        "failed to start; see /tmp/ray/session_latest/logs",
        file=sys.stderr,
        flush=True,
    )
    os._exit(EXIT_CODE)
