"""Ends a process without a first step: verl waits forever for a Ray worker that failed."""

import os
import sys
import threading

EXIT_CODE = 3

_timer: threading.Timer | None = None


def begin(seconds: float) -> None:
    """End this process with ``EXIT_CODE`` unless ``step_began`` is called within ``seconds``.

    It uses a thread, since a signal handler does not run while Python waits for Ray.
    """
    global _timer
    _timer = threading.Timer(seconds, _give_up, [seconds])
    _timer.daemon = True
    _timer.start()


def step_began() -> None:
    """Stop the watchdog, since the first step has begun."""
    if _timer is not None:
        _timer.cancel()


def _give_up(seconds: float) -> None:
    print(
        f"cluster.start_deadline_s={seconds:g}: no training step began in this time; a Ray worker may have failed to "
        "start: see /tmp/ray/session_latest/logs",
        file=sys.stderr,
        flush=True,
    )
    os._exit(EXIT_CODE)
