"""Ends what is left of a stage when the process that watches over it is gone, however it went.

    python -I -S reaper.py < pipe      (the pipe's first line is the process id of the stage)

The stage's process dies with its parent, and what Ray starts dies with the stage's process; but some of Ray's helpers
live on for a minute. So this one notes the stage's descendants twice a second until the pipe's other end closes, and then
kills those that are still there. (A mark in their environment would not do: Ray's processes overwrite it with their
title.) Only the standard library, so that it starts in a blink.
"""

import os
import select
import signal
import sys
import time

LOOK_SECONDS = 0.5
GRACE_SECONDS = 2.0  # for processes that are about to end by themselves

Process = tuple[int, str]  # id and start time, which together name a process for good


def processes() -> dict[Process, int]:
    """Every process and its parent's id. Linux only: elsewhere there is no /proc and nobody is found."""
    names = os.listdir("/proc") if os.path.isdir("/proc") else []
    stats = (_stat(name) for name in names if name.isdigit())
    return {process: parent for found in stats if found for process, parent in [found]}


def _stat(name: str) -> tuple[Process, int] | None:
    try:
        with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:  # it has just ended
        return None
    return (int(name), fields[19]), int(fields[1])


def family(root: int, known: set[Process]) -> set[Process]:
    """The process itself, those known to belong to it, and all that descend from any of them."""
    everyone = processes()
    found = {process for process in everyone if process[0] == root} | (known & set(everyone))
    grown = True
    while grown:
        ids = {pid for pid, _ in found}
        more = {process for process, parent in everyone.items() if parent in ids} - found
        found |= more
        grown = bool(more)
    return found


def watch(root: int) -> set[Process]:
    """Everyone seen in the family until the pipe closes."""
    seen: set[Process] = set()
    while not (select.select([sys.stdin], [], [], LOOK_SECONDS)[0] and not os.read(0, 1)):
        seen |= family(root, seen)
    return seen | family(root, seen)


def end(seen: set[Process]) -> None:
    time.sleep(GRACE_SECONDS)
    for pid, _ in seen & set(processes()):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


if __name__ == "__main__":
    end(watch(int(sys.stdin.buffer.raw.readline())))  # type: ignore[union-attr]
