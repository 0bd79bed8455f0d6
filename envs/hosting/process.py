"""One worker process seen from its owner: start it, ask it, notice when it hangs or dies."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec

from envs.types import EnvError
from envs.utils.printable import printable

Message = dict[str, Any]
START_DEADLINE_S = 120.0
_MAX_LINE = 1 << 24
_ROOT = str(Path(__file__).resolve().parents[2])


class WorkerLost(Exception):
    """The process is gone. ``culprit``: it was busy with this very request; ``hung``: it overran its deadline."""

    def __init__(self, reason: str, *, culprit: bool, hung: bool) -> None:
        super().__init__(reason)
        self.culprit, self.hung = culprit, hung


@dataclass
class _Pending:
    reply: asyncio.Future[Message]
    deadline_s: float


class WorkerProcess:
    """Requests are sent at once and answered in order; a request's deadline runs from when the one before it was
    answered, so that a slow neighbour costs nobody else their time."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        log: IO[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.pid = process.pid
        self._process, self._log, self._reader, self._writer = (process, log, reader, writer)
        self._waiting: deque[_Pending] = deque()
        self._unsent: list[bytes] = []
        self._wake = asyncio.Event()
        self._lost = ""
        self.task = asyncio.create_task(self._read_replies())

    @classmethod
    async def start(
        cls, environment_spec: str, options: Message | None = None, settings: Message | None = None
    ) -> WorkerProcess:
        """Start a process for the environment ``module:Class`` and wait until it has imported it.

        Raises:
            EnvError: it did not come up; the message ends with what it printed.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            # Before the process is there: cancelled here, none is left behind
            streams = await asyncio.open_connection(sock=ours, limit=_MAX_LINE)
            log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
            worker = cls(_spawn(theirs, log), log, *streams)
        try:
            hello = {"environment": environment_spec, "options": options or {}, "settings": settings or {}}
            await worker.request(hello, START_DEADLINE_S)
        except BaseException as error:  # cancelled, too: nobody else knows of the process
            await worker.close()
            if isinstance(error, WorkerLost):
                raise EnvError(f"no worker for {environment_spec}: {error}") from error
            raise
        return worker

    @property
    def alive(self) -> bool:
        return not self._lost

    async def request(self, message: Message, deadline_s: float) -> Message:
        """Send one message and wait for its reply.

        Raises:
            WorkerLost: the process died or was killed before it answered.
            EnvError: it answered that the environment failed.
        """
        if self._lost:
            raise WorkerLost(self._lost, culprit=False, hung=False)
        line = msgspec.json.encode(message) + b"\n"  # first: where it cannot be, nobody waits for an answer
        pending = _Pending(asyncio.get_running_loop().create_future(), deadline_s)
        self._waiting.append(pending)
        self._send(line)
        self._wake.set()
        reply = await pending.reply
        if "error" in reply:
            raise EnvError(reply["error"])
        return reply["ok"]

    def _send(self, line: bytes) -> None:
        """Together with what else is asked before the event loop turns: a system call costs more than a message."""
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(line)

    def _flush(self) -> None:
        lines, self._unsent = self._unsent, []
        if not self._writer.is_closing():  # else the reader is about to learn that the process is gone
            self._writer.writelines(lines)

    async def _read_replies(self) -> None:
        try:
            while True:
                while not self._waiting:
                    self._wake.clear()
                    await self._wake.wait()
                await self._read_one(self._waiting[0])
        except TimeoutError:
            self._lose(f"no answer within {self._waiting[0].deadline_s:g} s", hung=True)
        except (OSError, ValueError) as error:
            self._lose(f"worker died: {error}{self._last_words()}", hung=False)

    async def _read_one(self, head: _Pending) -> None:
        async with asyncio.timeout(head.deadline_s):
            line = await self._reader.readline()
        if not line:
            raise ConnectionError("it closed its side")
        reply = msgspec.json.decode(line)  # half a line, of one that was killed, fails while its asker still waits
        self._waiting.popleft()
        if not head.reply.done():  # the asker may have been cancelled meanwhile
            head.reply.set_result(reply)

    def _lose(self, reason: str, *, hung: bool) -> None:
        self._lost = reason
        self._process.kill()
        for place, pending in enumerate(self._waiting):
            if not pending.reply.done():
                pending.reply.set_exception(WorkerLost(reason, culprit=place == 0, hung=hung))
        self._waiting.clear()

    def _last_words(self) -> str:
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 500))
        words = printable(self._log.read().decode(errors="replace")).strip()
        return f" ({words})" if words else ""

    async def close(self) -> None:
        """End the process. A game in the middle of a step is not waited for."""
        self.task.cancel()
        if self.alive:
            self._lose("closed", hung=False)
        self._writer.close()
        await asyncio.get_running_loop().run_in_executor(None, self._process.wait)
        self._log.close()


def _spawn(theirs: socket.socket, log: IO[bytes]) -> subprocess.Popen[bytes]:
    """``-P`` and our root first on the path: a folder with an ``envs/`` of somebody else's must not be imported.

    The rest of our own path follows, so that environments which the user registered can be imported too.
    """
    path = [_ROOT, *(entry for entry in sys.path if entry and entry != _ROOT)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-P", "-m", "envs.hosting.worker"]
    return subprocess.Popen(command, stdin=theirs.fileno(), stdout=log, stderr=log, env=env)
