"""The owner's side of a worker process: start it, send requests, detect hangs and deaths."""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections import deque
from typing import IO, Any, Self

import msgspec

from turngrid.envs.types import EnvError
from turngrid.envs.utils import stacks
from turngrid.envs.utils.child_path import child_path
from turngrid.envs.utils.printable import printable

Message = dict[str, Any]
START_DEADLINE_S = 120.0
_MAX_LINE = 1 << 24
_Pending = tuple[asyncio.Future[Message], float]  # a reply, and its deadline in seconds


class WorkerLost(Exception):
    """The process is gone; ``culprit``: whether it was lost during this request."""

    def __init__(self, reason: str, *, culprit: bool) -> None:
        super().__init__(reason)
        self.culprit = culprit


class WorkerProcess(asyncio.Protocol):
    """A worker process; requests are answered in order.

    Those of one turn of the event loop are sent in one message. A request's deadline starts when
    the previous one is answered, so slow neighbours do not use it up.
    """

    def __init__(self, process: subprocess.Popen[bytes], log: IO[bytes], transport: asyncio.WriteTransport) -> None:
        self.pid = process.pid
        self._process, self._log, self._transport = process, log, transport
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Pending] = deque()
        self._unsent: list[bytes] = []
        self._partial = b""
        self._timer: asyncio.TimerHandle | None = None
        self._lost = ""

    @classmethod
    async def start(cls, environment_spec: str, settings: Message | None = None, legal: bool = False) -> Self:
        """Start a process and wait until it has imported the environment ``module:Class``.

        Raises:
            EnvError: it died (the message ends with its output) or took too long.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            # before the process starts: if cancelled here, none is left behind
            transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
            log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
            worker = cls(_spawn(theirs, log), log, transport)
            transport.set_protocol(worker)
        try:
            hello = {"environment": environment_spec, "settings": settings or {}, "legal": legal}
            await worker.request(hello, START_DEADLINE_S)
        except BaseException as error:  # also if cancelled: no other code knows of the process
            await worker.close()
            if isinstance(error, WorkerLost):
                raise EnvError(f"no worker for {environment_spec}: {error}") from error
            raise
        return worker

    @property
    def alive(self) -> bool:
        return not self._lost

    async def request(self, message: Message, deadline_s: float) -> Message:
        """Send one message and return its reply.

        Raises:
            WorkerLost: the process died or was killed before its reply.
            EnvError: the reply says that the environment failed.
        """
        if self._lost:
            raise WorkerLost(self._lost, culprit=False)
        line = msgspec.json.encode(message) + b"\n"  # may fail, so before the request is pending
        pending: asyncio.Future[Message] = self._loop.create_future()
        self._waiting.append((pending, deadline_s))
        if len(self._waiting) == 1:
            self._set_timer()
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent.append(line)
        reply = await pending
        if "error" in reply:
            raise EnvError(reply["error"])
        return reply["ok"]

    def _send(self) -> None:
        if not self._transport.is_closing():  # otherwise connection_lost reports the loss
            self._transport.write(b"".join(self._unsent))
        self._unsent.clear()

    def data_received(self, data: bytes) -> None:
        if self._lost:
            return
        *lines, self._partial = (self._partial + data).split(b"\n")
        try:
            for line in lines:
                reply = msgspec.json.decode(line)
                pending, _ = self._waiting.popleft()
                if not pending.done():  # cancelled requests are done
                    pending.set_result(reply)
        except (ValueError, IndexError) as error:  # no JSON, or no request waits for it
            self._lose(f"worker died: {error}")
        if len(self._partial) > _MAX_LINE:
            self._lose(f"an answer has more than {_MAX_LINE} bytes")
        if lines:
            self._set_timer()

    def connection_lost(self, error: Exception | None) -> None:
        if self.alive:
            self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 500))
            output = printable(self._log.read().decode(errors="replace")).strip()
            shown = f" ({output})" if output else ""
            self._lose(f"worker died: {error or 'it closed its side'}{shown}")

    def _set_timer(self) -> None:
        """Start the deadline of the first request; end the one before."""
        if self._timer:
            self._timer.cancel()
        if self._waiting:
            self._timer = self._loop.call_later(self._waiting[0][1], self._hung)

    def _hung(self) -> None:
        """Kill the process once it has written its stacks, unless it answers meanwhile."""
        reason = f"no answer within {self._waiting[0][1]:g} s"
        self._timer = self._loop.call_later(stacks.ask(self._process), self._lose, reason)

    def _lose(self, reason: str) -> None:
        self._lost = reason
        self._process.kill()
        for number, (pending, _) in enumerate(self._waiting):
            if not pending.done():
                pending.set_exception(WorkerLost(reason, culprit=number == 0))
        self._waiting.clear()
        self._set_timer()

    async def close(self) -> None:
        """End the process, without waiting for steps in progress."""
        if self.alive:
            self._lose("closed")
        self._transport.close()
        await self._loop.run_in_executor(None, self._process.wait)
        self._log.close()


def _spawn(theirs: socket.socket, log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a worker.

    It imports environments of other packages by this process's path; ``-P`` adds no folder to it.
    """
    env = {**os.environ, "PYTHONPATH": child_path(), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-P", "-m", "turngrid.envs.hosting.worker"]
    return subprocess.Popen(command, stdin=theirs.fileno(), stdout=log, stderr=log, env=env)
