"""Real servers on this machine: the one of docs/openenv.md, and one that misbehaves on command."""

import contextlib
import importlib
import json
import socket
import sys
import threading
from collections.abc import Iterator
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import small
import uvicorn
from page_modules import page_modules
from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

RELEASED = threading.Event()
STAND_IN = str(Path(__file__).parent / "openenv_stand_in")
SCHEMA = {"action": {"properties": {"move": {"type": "string"}}}, "observation": {"properties": {"text": {}}}}


@contextlib.contextmanager
def dial_module(folder: Path) -> Iterator[Any]:
    """The page's module, with openenv-core where it is installed."""
    path = [] if find_spec("openenv") else [STAND_IN]
    sys.path[:0] = path
    try:
        with page_modules(folder, "openenv.md"):
            yield importlib.import_module("dial")
    finally:
        sys.path[:] = [entry for entry in sys.path if entry not in path]
        for name in [name for name in sys.modules if path and name.partition(".")[0] == "openenv"]:
            del sys.modules[name]  # or it would pass for an installed one the next time


@contextlib.contextmanager
def served(app: Any) -> Iterator[str]:
    """The address of an app that runs in a thread."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            small.wait_for(lambda: server.started, 100)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = server.force_exit = True
            thread.join()


def _http(connection: ServerConnection, request: Request) -> Response | None:
    if request.path == "/ws":
        return None
    return Response(HTTPStatus.OK, "OK", Headers(), json.dumps(SCHEMA).encode())


def _misbehave(connection: ServerConnection) -> None:
    answer = {"type": "observation", "data": {"observation": {"text": "a door"}, "reward": 0, "done": False}}
    for text in connection:
        move = json.loads(text)["data"].get("move", "")
        if move == "hang":
            RELEASED.wait(60)
        elif move == "drop":
            return
        elif move.startswith("say "):
            connection.send(move.removeprefix("say "))
        else:
            connection.send(json.dumps(answer))


@contextlib.contextmanager
def misbehaving() -> Iterator[str]:
    """A server that hangs, drops its connection or says anything, as an action asks it to."""
    with serve(_misbehave, "127.0.0.1", 0, process_request=_http) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        RELEASED.clear()
        try:
            yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            RELEASED.set()
