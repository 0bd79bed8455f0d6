"""Run one command in isolation.

A command works in a copy of its folder and leaves no lasting change. Its only results are its exit
status, its standard output and its standard error.
"""

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from turngrid.envs.sandbox.types import Completed, Level, Limits, SandboxError
from turngrid.envs.sandbox.walls import bubblewrap, command, environment
from turngrid.envs.sandbox.watch import watched

MODES = ("auto", "limits")


@functools.cache
def level(mode: str = "auto") -> Level:
    """Return the isolation level of ``mode`` on this machine; each process tests it once.

    ``auto`` uses bubblewrap; ``limits`` sets only resource limits.

    Raises:
        SandboxError: bubblewrap does not work here.
    """
    if mode == "limits":
        return Level.LIMITS
    if not bubblewrap() or not _works():
        raise SandboxError(
            f"env.sandbox={mode}: bubblewrap is missing or does not work here; install it (Debian package "
            "bubblewrap), or use env.sandbox=limits, which protects no files and no network"
        )
    return Level.BUBBLEWRAP


def run(
    argv: Sequence[str],
    layers: Sequence[Path] = (),
    *,
    limits: Limits | None = None,
    given: bytes = b"",
    visible: Sequence[Path] = (),
    at: Level | None = None,
) -> Completed:
    """Run a command in a private copy of some folders.

    In bubblewrap its working directory is ``/repo``.

    Args:
        argv: the command.
        layers: folders, copied over each other in order.
        given: standard input.
        visible: further paths that the command may read.
        at: the isolation, by default that of ``auto``.

    Raises:
        SandboxError: bubblewrap does not work here, or the sandbox cannot be built.
    """
    at, limits = at or level(), limits or Limits()
    with tempfile.TemporaryDirectory(prefix=prefix(), ignore_cleanup_errors=True) as scratch:
        folder, home = Path(scratch, "repo"), Path(scratch, "tmp")
        folder.mkdir()
        home.mkdir()
        line = command(at, argv, [path.absolute() for path in layers], visible, limits, folder)
        if at is not Level.LIMITS:
            return watched(line, limits, given, cwd="/", env=environment("/tmp"))
        mark = os.urandom(8).hex()
        variables = environment(str(home)) | {"TURNGRID_RUN": mark}
        return watched(line, limits, given, f"TURNGRID_RUN={mark}", cwd=folder, env=variables)


def _works() -> bool:
    try:
        done = run(["sh", "-c", "pwd && echo here"], limits=Limits(wall_s=10.0), at=Level.BUBBLEWRAP)
    except (OSError, subprocess.SubprocessError):  # found but cannot be started
        return False
    return done.code == 0 and done.stdout.split() == [b"/repo", b"here"]


def prefix() -> str:
    """Return the prefix of temporary folders' names: this process's namespace and id."""
    return f"{_prefix_here()}{os.getpid()}-"


def sweep() -> None:
    """Remove temporary folders of dead processes; those of other namespaces cannot be checked."""
    ours = _prefix_here()
    for folder in Path(tempfile.gettempdir()).glob(f"{ours}*"):
        pid = folder.name.removeprefix(ours).split("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(folder, ignore_errors=True)


def _prefix_here() -> str:
    return f"turngrid-{os.stat('/proc/self/ns/pid').st_ino}-"


@functools.cache
def interpreter_paths(python: str = sys.executable) -> tuple[Path, ...]:
    """Return the folders that a Python interpreter needs to run with its packages.

    Raises:
        SandboxError: the interpreter does not start.
    """
    script = "import sys; print(sys.prefix, sys.base_prefix, sys.executable, sep='\\n')"
    try:
        done = subprocess.run([python, "-I", "-c", script], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxError(f"the interpreter {python} does not start: {error}") from error
    prefix, base, executable = done.stdout.splitlines()
    resolved = Path(executable).resolve().parents[1]
    return tuple(dict.fromkeys((Path(prefix), Path(base), resolved)))
