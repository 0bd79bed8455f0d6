"""A session at an OpenEnv server: its websocket, and the connections that a process may have.

The protocol is openenv-core 0.3.0's: ``{"type": "reset" | "step", "data": {...}}`` is answered by
``{"type": "observation", "data": {"observation", "reward", "done"}}``, or by
``{"type": "error", "data": {"code", "message"}}``. A session lives as long as its websocket.
"""

import contextlib
import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from turngrid.envs.types import EnvError
from turngrid.envs.utils.printable import printable, shortened

FULL = "CAPACITY_REACHED"
_LARGEST = 1 << 22  # bytes of an answer
_CLOSING_S = 1.0
_WAIT_S = 0.1  # between attempts to get a session at a full server
_SHOWN = 200  # characters of an answer in an error


@dataclass(frozen=True)
class Answer:
    observation: Mapping[str, Any]
    reward: float
    done: bool


class Refused(Exception):
    """The server answered with an error, whose text is the message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def proxied(url: str) -> bool:
    """Return whether the proxies of the environment variables apply: not on this machine."""
    return urlsplit(url).hostname not in ("localhost", "127.0.0.1", "::1")


class Connection:
    """An open session.

    Raises:
        EnvError: the server does not answer.
    """

    def __init__(self, url: str, deadline: float) -> None:
        from websockets.exceptions import WebSocketException
        from websockets.sync.client import connect

        self._url = url
        address = f"ws{url.removeprefix('http').rstrip('/')}/ws"
        # no pings: a server that is busy with a step answers none, and each request has a deadline
        options: dict[str, Any] = {"ping_interval": None, "max_size": _LARGEST, "close_timeout": _CLOSING_S}
        try:
            self._socket = connect(
                address, open_timeout=_left(deadline), proxy=True if proxied(url) else None, **options
            )
        except (OSError, ValueError, WebSocketException) as error:
            raise EnvError(f"the server at {url} does not answer: {error or type(error).__name__}") from error

    def ask(self, kind: str, data: Mapping[str, Any], deadline: float) -> Answer:
        """Send a message and return the answer.

        Args:
            deadline: of ``time.monotonic``.

        Raises:
            Refused: the server refused the message.
            EnvError: the connection is dead, or the answer is late or not of the protocol.
        """
        from websockets.exceptions import ConnectionClosed

        # half a surrogate pair, echoed in an error, would end the session at openenv-core's server
        message = json.dumps({"type": kind, "data": data}, ensure_ascii=False).encode("utf-8", "replace").decode()
        try:
            with contextlib.suppress(ConnectionClosed):  # a full server says so, and closes
                self._socket.send(message)
            text = self._socket.recv(timeout=_left(deadline))
        except TimeoutError as error:
            raise EnvError(f"the server at {self._url} did not answer a {kind} in time") from error
        except (OSError, ConnectionClosed) as error:
            raise EnvError(f"the server at {self._url} closed the connection at a {kind}: {error}") from error
        return read(text, self._url)

    def close(self) -> None:
        with contextlib.suppress(Exception):  # it may be dead
            self._socket.close()


def read(text: str | bytes, url: str) -> Answer:
    """Return the answer in a message of the server.

    Raises:
        Refused: it is an error of the protocol.
        EnvError: it is no answer of the protocol.
    """
    try:
        message = json.loads(text)
        data = message["data"]
        if message["type"] == "error":
            raise Refused(str(data.get("code", "")), _reason(data))
        reward = float(data["reward"] or 0.0)
        if message["type"] != "observation" or not isinstance(data["observation"], dict) or not math.isfinite(reward):
            raise ValueError("no observation")
        return Answer(data["observation"], reward, data["done"] is True)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        shown = printable(text if isinstance(text, str) else repr(text)).replace("\n", " ")
        raise EnvError(f"the server at {url} sent no answer of the protocol: {shortened(shown, _SHOWN)}") from error


def _reason(data: Mapping[str, Any]) -> str:
    """Return an error's text in one line; of several faults in an action, the first."""
    text, faults = str(data.get("message", "")), data.get("errors")
    if isinstance(faults, list) and faults and isinstance(faults[0], dict):
        field = ".".join(map(str, faults[0].get("loc") or ()))
        text = f"{field}: {faults[0].get('msg', '')}" if field else str(faults[0].get("msg", ""))
    return shortened(" ".join(printable(text).split()), _SHOWN)


def _left(deadline: float) -> float:
    return max(0.001, deadline - time.monotonic())


class Connections:
    """The sessions of this process at one server.

    A server may have room for a single session (``max_concurrent_envs=1`` is the default of
    openenv-core). If it is full, the episode that acts takes over the session that was used longest
    ago, and its owner has to play its episode again.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._open: dict[object, Connection] = {}  # by owner, the one used last at the end
        self._full = False

    def of(self, owner: object) -> Connection | None:
        """Return the owner's session, if it still has one."""
        if connection := self._open.pop(owner, None):
            self._open[owner] = connection
        return connection

    def start(self, owner: object, arguments: Mapping[str, Any], deadline: float) -> tuple[Connection, Answer]:
        """Return a session of the owner's, just reset.

        Raises:
            Refused: the environment refuses the arguments.
            EnvError: the server does not answer, or all its sessions belong to other processes.
        """
        was_full = False
        while True:
            try:
                connection = self.of(owner) or self._taken_over() or Connection(self.url, deadline)
                self._open[owner] = connection
                return connection, connection.ask("reset", arguments, deadline)
            except Refused as refused:
                if refused.code != FULL:
                    raise
                self.drop(owner)
                self._full, was_full = bool(self._open), True
                self._wait(deadline)
            except EnvError as error:
                self.drop(owner)
                if was_full:
                    raise self._no_room() from error
                raise

    def _taken_over(self) -> Connection | None:
        return self._open.pop(next(iter(self._open))) if self._full and self._open else None

    def _wait(self, deadline: float) -> None:
        if self._open:
            return
        if time.monotonic() + _WAIT_S >= deadline:
            raise self._no_room()
        time.sleep(_WAIT_S)

    def _no_room(self) -> EnvError:
        return EnvError(
            f"the server at {self.url} has no room for another session; start it with a higher "
            "max_concurrent_envs, or use env.workers=1"
        )

    def drop(self, owner: object) -> None:
        if connection := self._open.pop(owner, None):
            self._full = False
            connection.close()
