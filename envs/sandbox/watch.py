"""Watching a running command from outside: its processes, their memory, what it prints, and its end."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from envs.sandbox import files
from envs.sandbox.types import Limits, Outcome

_LOOK_EVERY_S = 0.05
_PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / (1 << 20)
_KEEP_BYTES = 1 << 16
_TRIES = 200


class Watch:
    """Feeds a started process its input and collects its two outputs until it ends or breaks a limit.

    ``folders``: where it writes, if it is not behind walls.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], limits: Limits, mark: str, folders: Sequence[Path] = ()
    ) -> None:
        self._process, self._limits, self._mark = process, limits, mark
        self._files = files.Count(folders)
        self._started = time.monotonic()
        self.stdout, self.stderr = bytearray(), bytearray()
        self._printed = 0

    def run(self, given: bytes) -> Outcome:
        """Raises nothing of the command's doing; on return every process of it has ended or been killed."""
        assert self._process.stdout
        assert self._process.stderr
        try:
            with selectors.DefaultSelector() as streams:
                streams.register(self._process.stdout, selectors.EVENT_READ, self.stdout)
                streams.register(self._process.stderr, selectors.EVENT_READ, self.stderr)
                excess = self._collect(streams, _Feed(self._process, given, streams))
        finally:
            self.kill()
        return excess or _ending(self._process.returncode)

    def _collect(self, streams: selectors.BaseSelector, feed: _Feed) -> Outcome | None:
        """Until the command ends by itself (None) or breaks a limit."""
        next_look = 0.0
        while streams.get_map() or not self._ended():
            for key, _ in streams.select(_LOOK_EVERY_S):
                feed.write() if key.data is feed else self._read(streams, key)
            now = time.monotonic()
            if self._printed > self._limits.output_mib << 20:
                return Outcome.TOO_MUCH_OUTPUT
            if now - self._started > self._limits.wall_s:
                return Outcome.TIMED_OUT
            if self._ended() and not streams.select(0):
                break  # a stray process may hold the streams open; the command itself has ended
            if now >= next_look:
                next_look = now + _LOOK_EVERY_S
                if excess := self._excess():
                    return excess
        return None

    def _ended(self) -> bool:
        """Without taking note of it: until ``kill`` is done, nobody else must get its process number."""
        if self._process.returncode is not None:
            return True
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _read(self, streams: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        data = os.read(key.fd, 1 << 16)
        if not data:
            streams.unregister(key.fileobj)
            return
        self._printed += len(data)
        if key.data is self.stdout or len(self.stderr) < _KEEP_BYTES:
            key.data.extend(data)

    def _excess(self) -> Outcome | None:
        pids = self._pids()
        if len(pids) > self._limits.processes + 8:  # the walls themselves are a few processes
            return Outcome.TOO_MANY_PROCESSES
        most = self._limits.memory_mib
        if sum(map(_resident_mib, pids)) > most and sum(map(_share_mib, pids)) > most:
            return Outcome.OUT_OF_MEMORY
        is_open = sum(map(files.opened, pids))
        if is_open > self._limits.open_files or self._files.most(pids, self._limits.files) > self._limits.files:
            return Outcome.TOO_MANY_FILES
        return None

    def _pids(self) -> list[int]:
        """The process and its descendants."""
        found: list[int] = []
        front = [self._process.pid]
        while front and len(found) <= self._limits.processes + 8:
            pid = front.pop()
            found.append(pid)
            front += _children(pid)
        return found

    def kill(self) -> None:
        """End the whole tree. Behind walls the first process takes all others with it; elsewhere we look for them."""
        for pid in self._pids():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._mark:
            _kill_marked(self._mark.encode())


class _Feed:
    """Standard input, written as the command reads it."""

    def __init__(self, process: subprocess.Popen[bytes], given: bytes, streams: selectors.BaseSelector) -> None:
        assert process.stdin
        self._stdin, self._left, self._streams = process.stdin, memoryview(given), streams
        os.set_blocking(self._stdin.fileno(), False)
        streams.register(self._stdin, selectors.EVENT_WRITE, self)

    def write(self) -> None:
        try:
            self._left = self._left[os.write(self._stdin.fileno(), self._left[: 1 << 16]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._left = memoryview(b"")
        if not self._left:
            self._streams.unregister(self._stdin)
            self._stdin.close()


def _ending(code: int) -> Outcome:
    """From an exit status, ours (negative: a signal) or that of the walls (128 + signal)."""
    number = -code if code < 0 else code - 128
    if number == signal.SIGXCPU:
        return Outcome.OUT_OF_CPU_TIME
    return Outcome.KILLED if 0 < number < 65 else Outcome.FINISHED


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [
            int(child)
            for task in os.listdir(f"/proc/{pid}/task")
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split()
        ]
    return []


def _resident_mib(pid: int) -> float:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_MIB
    return 0.0


def _share_mib(pid: int) -> float:
    """A process's memory with what it shares divided among its sharers: slower to read, so only when it matters."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
    return _resident_mib(pid)


def _kill_marked(mark: bytes) -> None:
    """Processes that left the tree are known by the environment that they were started with."""
    for _ in range(_TRIES):
        everybody = (int(name) for name in os.listdir("/proc") if name.isdigit())
        marked = [pid for pid in everybody if mark in _environment(pid)]
        if not marked:
            return
        for pid in marked:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _environment(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""
