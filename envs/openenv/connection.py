"""A session at an OpenEnv server, through its websocket.

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
        raise EnvError(f"the server at {url} answers nonsense: {shortened(shown, _SHOWN)}") from error


def _reason(data: Mapping[str, Any]) -> str:
    """Return an error's text in one line; of several faults in an action, the first."""
    text, faults = str(data.get("message", "")), data.get("errors")
    if isinstance(faults, list) and faults and isinstance(faults[0], dict):
        place = ".".join(map(str, faults[0].get("loc") or ()))
        text = f"{place}: {faults[0].get('msg', '')}" if place else str(faults[0].get("msg", ""))
    return shortened(" ".join(printable(text).split()), _SHOWN)


def _left(deadline: float) -> float:
    return max(0.001, deadline - time.monotonic())


def started(url: str, arguments: Mapping[str, Any], deadline: float) -> tuple[Connection, Answer]:
    """Return a new session, just reset; if the server is full, wait until it has room.

    Raises:
        Refused: the environment refuses the arguments.
        EnvError: the server does not answer, or has no room in time.
    """
    full = False
    while True:
        try:
            return _reset(url, arguments, deadline)
        except Refused as refused:
            if refused.code != FULL:
                raise
            full = True
            time.sleep(_WAIT_S)
        except EnvError as error:
            if not full:
                raise
            problem = f"the server at {url} has no room for another session"
            raise EnvError(f"{problem}; start it with a higher max_concurrent_envs") from error


def _reset(url: str, arguments: Mapping[str, Any], deadline: float) -> tuple[Connection, Answer]:
    connection = Connection(url, deadline)
    try:
        return connection, connection.ask("reset", arguments, deadline)
    except (Refused, EnvError):
        connection.close()
        raise
