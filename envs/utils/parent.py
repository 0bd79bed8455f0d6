"""For processes that are of no use without the one that started them."""

from __future__ import annotations

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Called in a child, as ``preexec_fn`` or first thing after a fork: it is killed when the thread that started it ends.

    Linux only; elsewhere it has to notice by itself.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
