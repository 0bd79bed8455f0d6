"""For processes that are of no use without the one that started them."""

from __future__ import annotations

import ctypes
import functools
import shutil
import signal
import subprocess
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Called in a child, as ``preexec_fn`` or first thing after a fork: it is killed when the thread that started it ends.

    Linux only; elsewhere it has to notice by itself.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@functools.cache
def binder() -> tuple[str, ...]:
    """To be put before a command, whose process is killed then when the thread that started it ends: a quarter of the CPU time that a
    ``preexec_fn`` takes, for which a large process must be copied. () where the system has none."""
    setpriv = shutil.which("setpriv")  # util-linux, from 2.33 on
    if sys.platform != "linux" or not setpriv:
        return ()
    words = (setpriv, "--pdeathsig", "KILL")
    return () if subprocess.run([*words, "true"], check=False, capture_output=True).returncode else words
