"""Ends the remaining processes of a stage once the process that watches over it is gone.

    python -I reaper.py < pipe      (the pipe's first line is the process id of the stage)

The stage's process dies with its parent, but some of Ray's helpers live on for a minute. So this
process records the stage's descendants twice a second until the pipe's other end closes, and then
kills those that are still alive.
"""

import os
import select
import sys
import time
from contextlib import suppress

import psutil

LOOK_SECONDS = 0.5
GRACE_SECONDS = 2.0  # seconds for processes to end by themselves


def grow(seen: set[psutil.Process]) -> None:
    """Add all descendants; members whose parent is gone have a new one outside."""
    ids = {process.pid for process in seen}
    for process in list(seen):
        with suppress(psutil.Error):
            if process.ppid() not in ids:
                seen.update(process.children(recursive=True))


def watch(root: int) -> set[psutil.Process]:
    """Return all members of the family that were seen until the pipe closed."""
    seen = {psutil.Process(root)}
    while not (select.select([sys.stdin], [], [], LOOK_SECONDS)[0] and not os.read(0, 1)):
        grow(seen)
    grow(seen)
    return seen


if __name__ == "__main__":
    with suppress(psutil.NoSuchProcess):  # the stage ended at once
        members = watch(int(sys.stdin.buffer.raw.readline()))  # type: ignore[union-attr]
        time.sleep(GRACE_SECONDS)
        for member in members:
            with suppress(psutil.Error):
                member.kill()
