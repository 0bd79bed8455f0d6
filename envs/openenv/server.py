"""Where an OpenEnv server is, what it accepts, and the containers that run one."""

import contextlib
import functools
import os
import socket
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from turngrid.envs.openenv.connection import Connections, proxied
from turngrid.envs.types import EnvError

_PORT = 8000  # of the server in an OpenEnv image
_SCHEMA_S = 10.0
_START_S = 50.0  # seconds until a container's server answers; the first reset may take 60
_POLL_S = 0.25


@functools.cache
def schema(url: str) -> dict[str, Any]:
    """Return the JSON schemas ``action`` and ``observation`` of a server.

    Raises:
        EnvError: it does not answer, or not with schemas.
    """
    import httpx

    try:
        reply = httpx.get(f"{url.rstrip('/')}/schema", timeout=_SCHEMA_S, trust_env=proxied(url))
        schemas = reply.raise_for_status().json()
        action, observation = (dict(schemas[name]["properties"]) for name in ("action", "observation"))
    except httpx.HTTPError as error:
        raise EnvError(f"the server at {url} does not answer: {error or type(error).__name__}") from error
    except (ValueError, LookupError, TypeError, httpx.InvalidURL) as error:
        raise EnvError(f"{url}/schema has no schemas of an OpenEnv server") from error
    shown = {key: value for key, value in observation.items() if key not in ("done", "reward", "metadata")}
    action.pop("metadata", None)
    return {
        "action": {**schemas["action"], "properties": action, "additionalProperties": False},
        "observation": {**schemas["observation"], "properties": shown},
    }


def fields(url: str, of: str) -> Mapping[str, Any]:
    """Return the schemas of the fields of an ``action`` or ``observation``."""
    properties: dict[str, Any] = schema(url)[of]["properties"]
    return properties


@functools.cache
def connections(url: str | None, image: str | None) -> Connections:
    """Return the sessions of this process at a server, or at that of a container of its own.

    Raises:
        EnvError: no container starts.
    """
    return Connections(url or _start(str(image)))


def _start(image: str) -> str:
    """Start a container and return the address of its server.

    A second process removes it when this one is gone, however it ended.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    name = f"turngrid-{os.getpid()}-{port}"
    command = ["docker", "run", "--detach", "--rm", "--name", name, "--publish", f"127.0.0.1:{port}:{_PORT}", image]
    watch = ["sh", "-c", 'cat > /dev/null; docker rm --force "$0" > /dev/null 2>&1', name]
    subprocess.Popen(watch, stdin=subprocess.PIPE, start_new_session=True)
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_START_S)
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", None) or error).strip().splitlines()
        raise EnvError(f"docker runs no container of env.image={image}: {said[-1] if said else error}") from error
    return _ready(f"http://127.0.0.1:{port}", image)


def _ready(url: str, image: str) -> str:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        with contextlib.suppress(EnvError):
            schema(url)
            return url
        time.sleep(_POLL_S)
    raise EnvError(f"the server of env.image={image} did not answer within {_START_S:g} s")
