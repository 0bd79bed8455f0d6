"""Ends the remaining processes of a stage once the process that watches over it is gone.

    python -I reaper.py < pipe      (the pipe's first line is the process id of the stage)

The stage's process dies with its parent, but some of Ray's helpers live on for a minute. So this
process records the stage's descendants twice a second until the pipe's other end closes, and then
kills those that are still alive. A mark in their environment would not work: Ray's processes
overwrite it with their title.
"""

import os
import select
import sys
import time
from contextlib import suppress

import psutil

LOOK_SECONDS = 0.5
GRACE_SECONDS = 2.0  # seconds for processes to end by themselves

Process = tuple[int, float]  # id and start time, which together are unique


def processes() -> dict[Process, int]:
    """Return every process and its parent's id."""
    listed = psutil.process_iter(["ppid", "create_time"])
    return {(process.pid, process.info["create_time"]): process.info["ppid"] for process in listed}


def family(root: int, known: set[Process]) -> set[Process]:
    """Return the process ``root``, the known members of its family, and all their descendants."""
    parents = processes()
    members = {process for process in parents if process[0] == root} | (known & parents.keys())
    grown = True
    while grown:
        ids = {pid for pid, _ in members}
        more = {process for process, parent in parents.items() if parent in ids} - members
        members |= more
        grown = bool(more)
    return members


def watch(root: int) -> set[Process]:
    """Return all members of the family that were seen until the pipe closed."""
    seen: set[Process] = set()
    while not (select.select([sys.stdin], [], [], LOOK_SECONDS)[0] and not os.read(0, 1)):
        seen |= family(root, seen)
    return seen | family(root, seen)


def end(seen: set[Process]) -> None:
    time.sleep(GRACE_SECONDS)
    for pid, _ in seen & processes().keys():
        with suppress(psutil.NoSuchProcess):
            psutil.Process(pid).kill()


if __name__ == "__main__":
    end(watch(int(sys.stdin.buffer.raw.readline())))  # type: ignore[union-attr]
