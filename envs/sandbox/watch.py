"""Watch a running command from outside: its processes, memory, files, output, and its end.

Files behind walls are counted because even an empty file takes memory.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from turngrid.envs.sandbox.types import Completed, Limits, Outcome
from turngrid.envs.sandbox.walls import WRITABLE

_LOOK_EVERY_S = 0.05
_PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / (1 << 20)
_TRIES = 200


class Watch:
    """Feeds a started process its input and collects its outputs until it ends or exceeds a limit.

    Args:
        mark: an environment variable that identifies its processes; "" with bubblewrap.
    """

    def __init__(self, process: subprocess.Popen[bytes], limits: Limits, mark: str) -> None:
        self._process, self._limits, self._mark = process, limits, mark
        self._started = time.monotonic()
        self.stdout, self.stderr = bytearray(), bytearray()

    def run(self, given: bytes) -> Outcome:
        """Return the outcome; on return all processes of the command have ended."""
        process = self._process
        assert process.stdin and process.stdout and process.stderr
        feeder = threading.Thread(target=_feed, args=(process.stdin, given), daemon=True)
        feeder.start()
        try:
            with selectors.DefaultSelector() as streams:
                streams.register(process.stdout, selectors.EVENT_READ, self.stdout)
                streams.register(process.stderr, selectors.EVENT_READ, self.stderr)
                excess = self._collect(streams)
        finally:
            self.kill()
            feeder.join()
        return excess or _ending(process.returncode)

    def _collect(self, streams: selectors.BaseSelector) -> Outcome | None:
        """Wait until the command ends by itself (None) or exceeds a limit."""
        next_look = 0.0
        while streams.get_map() or not self._ended():
            for key, _ in streams.select(_LOOK_EVERY_S):
                self._read(streams, key)
            now = time.monotonic()
            if len(self.stdout) + len(self.stderr) > self._limits.output_mib << 20:
                return Outcome.TOO_MUCH_OUTPUT
            if now - self._started > self._limits.wall_s:
                return Outcome.TIMED_OUT
            if self._ended() and not streams.select(0):
                break  # a stray process may hold the streams open
            if now >= next_look:
                next_look = now + _LOOK_EVERY_S
                if excess := self._excess():
                    return excess
        return None

    def _ended(self) -> bool:
        """Return whether the command ended, without reaping it: ``kill`` needs its process id."""
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _read(self, streams: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        data = os.read(key.fd, 1 << 16)
        if not data:
            streams.unregister(key.fileobj)
            return
        key.data.extend(data)

    def _excess(self) -> Outcome | None:
        pids = self._pids()
        if len(pids) > self._limits.processes + 8:  # bubblewrap itself runs as a few processes
            return Outcome.TOO_MANY_PROCESSES
        most = self._limits.memory_mib
        if sum(map(_resident_mib, pids)) > most and sum(map(_share_mib, pids)) > most:
            return Outcome.OUT_OF_MEMORY
        behind_walls = not self._mark
        if behind_walls and _files_behind_walls(pids) > self._limits.files:
            return Outcome.TOO_MANY_FILES
        if sum(len(_entries(pid, "fd")) for pid in pids) > self._limits.open_files:
            return Outcome.TOO_MANY_FILES
        return None

    def _pids(self) -> list[int]:
        pids: list[int] = []
        front = [self._process.pid]
        while front and len(pids) <= self._limits.processes + 8:
            pid = front.pop()
            pids.append(pid)
            front += _children(pid)
        return pids

    def kill(self) -> None:
        """Kill the whole tree; without walls, also marked processes that left it."""
        for pid in self._pids():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._mark:
            _kill_marked(self._mark.encode())


def watched(line: Sequence[str], limits: Limits, given: bytes, mark: str = "", **where: Any) -> Completed:
    """Run a command line to its end, with ``given`` as its input; ``where`` is for ``Popen``."""
    pipe = subprocess.PIPE
    with subprocess.Popen(line, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, **where) as process:
        watch = Watch(process, limits, mark)
        outcome = watch.run(given)
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    if outcome not in (Outcome.FINISHED, Outcome.KILLED, Outcome.OUT_OF_CPU_TIME):
        code = -1  # the sandbox ended it
    return Completed(outcome, code, bytes(watch.stdout), bytes(watch.stderr))


def _feed(stdin: IO[bytes], given: bytes) -> None:
    """Write standard input; a command may end without reading it."""
    with contextlib.suppress(BrokenPipeError), stdin:
        stdin.write(given)


def _ending(code: int) -> Outcome:
    """Return the outcome of an exit status: negative or 128 + a number means a signal."""
    number = -code if code < 0 else code - 128
    if number == signal.SIGXCPU:
        return Outcome.OUT_OF_CPU_TIME
    return Outcome.KILLED if 0 < number < 65 else Outcome.FINISHED


def _children(pid: int) -> list[int]:
    tasks = _entries(pid, "task")
    return [int(child) for task in tasks for child in _file(pid, f"task/{task}/children").split()]


def _resident_mib(pid: int) -> float:
    words = _file(pid, "statm").split()
    return int(words[1]) * _PAGE_MIB if words else 0.0


def _share_mib(pid: int) -> float:
    """Return a process's memory, shared pages divided among their processes; slow to read."""
    lines = _file(pid, "smaps_rollup").splitlines()
    shares = [int(line.split()[1]) for line in lines if line.startswith(b"Pss:")]
    return sum(shares) / 1024 if lines else _resident_mib(pid)


def _kill_marked(mark: bytes) -> None:
    """Kill processes that left the tree, found by their environment variable."""
    for _ in range(_TRIES):
        pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
        marked = [pid for pid in pids if mark in _file(pid, "environ")]
        if not marked:
            return
        for pid in marked:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _file(pid: int, name: str) -> bytes:
    """Return a file of ``/proc/PID``, empty if the process ended or is another user's."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_bytes()
    return b""


def _entries(pid: int, name: str) -> list[str]:
    """Return the entries of a folder of ``/proc/PID``; [] as for ``_file``."""
    with contextlib.suppress(OSError):
        return os.listdir(f"/proc/{pid}/{name}")
    return []


def _files_behind_walls(pids: Sequence[int]) -> int:
    """Return the most inodes used on one tmpfs of the sandbox; the last pid is the innermost."""
    outside = os.stat("/")
    for pid in reversed(pids):
        root = f"/proc/{pid}/root"
        with contextlib.suppress(OSError):
            if not os.path.samestat(os.stat(f"{root}/"), outside):
                counts = [os.statvfs(root + folder) for folder in WRITABLE]
                return max(count.f_files - count.f_ffree for count in counts)
    return 0
