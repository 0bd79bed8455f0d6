"""Ends a training process that never reaches its first step: verl waits for ever for a Ray worker that cannot start."""

from __future__ import annotations

import os
import sys
import threading

EXIT_CODE = 3

_timer: threading.Timer | None = None


def begin(seconds: float) -> None:
    """End this process with ``EXIT_CODE`` unless ``step_began`` is called within ``seconds``.

    A thread waits, not a signal: a signal handler runs only when Python does, and Python may wait for Ray.
    """
    global _timer
    _timer = threading.Timer(seconds, _give_up, [seconds])
    _timer.daemon = True
    _timer.start()


def step_began() -> None:
    if _timer is not None:
        _timer.cancel()


def _give_up(seconds: float) -> None:
    print(
        f"no training step began within {seconds:g} s of the start (cluster.start_deadline_s): "
        "a Ray worker may have failed to start; see /tmp/ray/session_latest/logs",
        file=sys.stderr,
        flush=True,
    )
    os._exit(EXIT_CODE)
