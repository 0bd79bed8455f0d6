"""What Ray runs for each worker in the place of its own ``setup_worker.py``: asks the template for a copy of itself, or does as
Ray's does, where there is no template, where the copy fails, or for another Python or other variables than this one's. Only the standard
library."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import socket
import struct
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

VARIABLE = "TURNGRID_TEMPLATE"  # the name of the template's socket
JOB = "01000000"  # a run's Ray has one job
READ_LATE = {
    "WORLD_SIZE",
    "RANK",
    "WG_PREFIX",
    "WG_BACKEND",
    "RAY_LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
}  # verl's
PATIENCE_S = 30  # for a copy; Ray's own ends at 60


def main(arguments: list[str]) -> None:
    with suppress(Exception):  # whatever it is, Ray has an own start
        if _copied(arguments):
            return
    found = find_spec("ray")
    assert found is not None and found.origin is not None
    rays = Path(found.origin).parent / "_private" / "workers" / "setup_worker.py"
    os.execv(sys.executable, [sys.executable, str(rays), *arguments])


def same_user(connection: socket.socket) -> bool:
    """Whether the other end is a process of this user's: sockets without a file have no permissions."""
    _, user, _ = struct.unpack(
        "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    )
    return bool(user == os.geteuid())


def _copied(arguments: list[str]) -> bool:
    name, request = os.environ.get(VARIABLE), _request(arguments)
    return bool(name and request and _accepted(name, json.dumps(request).encode()))


def _request(arguments: list[str]) -> dict[str, object] | None:
    """None for what a copy of the template cannot be."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--serialized-runtime-env-context", default="{}")
    parser.add_argument("--language")
    known, command = parser.parse_known_args(arguments)
    context = json.loads(known.serialized_runtime_env_context)
    variables = context.get("env_vars") or {}
    python = shlex.split(context.get("py_executable") or "") or [sys.executable]
    if known.language != "PYTHON" or python != [sys.executable] or context.get("command_prefix"):
        return None
    if command[0].startswith("-") or os.environ.get("RAY_JOB_ID", JOB) != JOB or _read_at_once(variables):
        return None
    oom_score_adj = Path("/proc/self/oom_score_adj").read_text()
    asked = {"folder": os.getcwd(), "variables": dict(os.environ), "oom_score_adj": oom_score_adj}
    return asked | {"of_runtime_env": variables, "arguments": command}


def _read_at_once(variables: dict[str, str]) -> bool:
    """Whether one is another than the template's: libraries read theirs when they are imported, which a copy does no more."""
    return any(value != os.environ.get(name) for name, value in variables.items() if name not in READ_LATE)


def _accepted(name: str, request: bytes) -> bool:
    """Whether Ray has taken the copy as its worker; one that fails closes its end, or has been killed before this gives up."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(PATIENCE_S * 1.5)
        asking.connect(f"\0{name}")
        if not same_user(asking):
            return False
        asking.sendall(len(request).to_bytes(4, "big"))
        socket.send_fds(asking, [b"0"], [0, 1, 2])
        asking.sendall(request)
        return asking.recv(1) == b"1"


if __name__ == "__main__":
    main(sys.argv[1:])
