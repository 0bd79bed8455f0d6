"""What Ray runs for each worker in the place of its own ``setup_worker.py``: asks the template for a copy of itself, or does as
Ray's does, where there is no template, where the copy fails, or for another Python than this one. Only the standard library."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

READ_AT_ONCE = ("PYTHONPATH", "LD_PRELOAD")  # by Python and the loader, before anything of ours runs
VARIABLE = "TURNGRID_TEMPLATE"  # the name of the template's socket


def main(arguments: list[str]) -> None:
    name, request = os.environ.get(VARIABLE), _request(arguments)
    if name and request and _accepted(name, json.dumps(request).encode()):
        return
    found = find_spec("ray")
    assert found is not None and found.origin is not None
    rays = Path(found.origin).parent / "_private" / "workers" / "setup_worker.py"
    os.execv(sys.executable, [sys.executable, str(rays), *arguments])


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
    other = any(variables.get(name, os.environ.get(name)) != os.environ.get(name) for name in READ_AT_ONCE)
    if other or command[0].startswith("-"):
        return None
    return {"folder": os.getcwd(), "variables": dict(os.environ), "of_runtime_env": variables, "arguments": command}


def _accepted(name: str, request: bytes) -> bool:
    """Whether Ray has taken the copy as its worker; one that fails closes its end."""
    try:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(f"\0{name}")
            asking.sendall(len(request).to_bytes(4, "big"))
            socket.send_fds(asking, [b"0"], [0, 1, 2])
            asking.sendall(request)
            return asking.recv(1) == b"1"
    except OSError:
        return False


if __name__ == "__main__":
    main(sys.argv[1:])
