"""Stages that need torch, verl or Ray run in a process of their own: memory comes back, and a kill takes all with it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from envs.types import EnvError
from envs.utils.parent import die_with_parent
from records.process import reaper
from records.process.exit_codes import FAILED, Failure, say

POLL_SECONDS = 0.2
TAIL_LINES = 15
_REASON = "TURNGRID_REASON"  # names the file in which a stage leaves the error that ended it


class StageFailed(Failure):
    """A stage's process ended badly; the message holds the end of its log and where the whole of it lies."""


def run_child(
    module: str,
    arguments: Sequence[str],
    *,
    folder: Path,
    log: Path,
    variables: Mapping[str, str] | None = None,
    on_poll: Callable[[], None] = lambda: None,
    ahead: subprocess.Popen[bytes] | None = None,
) -> None:
    """Run a ``child`` until it ends; ``on_poll`` is called a few times a second.

    Args:
        ahead: one of this module that was started without arguments and reads them from its standard input, a line each; where it
            has ended, another is started.

    Raises:
        StageFailed: the process did not end with exit code 0.
    """
    usual = child(module, arguments, folder=folder, log=log, variables=variables)
    with _told(ahead, arguments) if ahead and ahead.poll() is None else usual as process:
        while process.poll() is None:
            on_poll()
            time.sleep(POLL_SECONDS)
    on_poll()
    if process.returncode != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        tail = "\n".join(f"  | {line}" for line in lines[-TAIL_LINES:])
        raise StageFailed(f"{module} ended with exit code {process.returncode}; see {log}\n{_reason(log) or tail}")


def stage_exit_code(run: Callable[[], object]) -> int:
    """Call ``run`` in a stage's own process and return its exit code.

    A foreseen error reaches the parent's ``StageFailed`` in its own words, not as the end of a log that others write to.
    """
    try:
        run()
    except (Failure, EnvError) as error:
        say(str(error))
        Path(os.environ.get(_REASON, os.devnull)).write_text(str(error), encoding="utf-8")
        return FAILED
    return 0


def _reason(log: Path) -> str:
    file = _reason_file(log)
    return file.read_text(encoding="utf-8") if file.exists() else ""


def _reason_file(log: Path) -> Path:
    return log.with_suffix(".reason")


@contextmanager
def _told(ahead: subprocess.Popen[bytes], arguments: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    assert ahead.stdin
    with suppress(BrokenPipeError), ahead.stdin as line:  # it has just ended: that is told as for any other
        line.write("\n".join([*arguments, ""]).encode())
    yield ahead


@contextmanager
def child(
    module: str,
    arguments: Sequence[str],
    *,
    folder: Path,
    log: Path,
    variables: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
) -> Iterator[subprocess.Popen[bytes]]:
    """``python -P -m module`` in ``folder``, ended at the latest with the block.

    ``-P`` and our own root on ``PYTHONPATH`` keep modules of the user's folder from standing in for ours.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    _reason_file(log).unlink(missing_ok=True)
    command = [sys.executable, "-P", "-m", module, *arguments]
    with log.open("ab") as output, _reaper() as guard:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=child_variables({**(variables or {}), _REASON: str(_reason_file(log))}),
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one prctl call, safe after a fork
        )
        guard.write(f"{process.pid}\n".encode())
        guard.flush()
        try:
            yield process
        finally:
            _stop(process)


@contextmanager
def _reaper() -> Iterator[IO[bytes]]:
    """While this process lives, and until the block ends, the reaper waits; then it ends what the stage left.

    It is told the stage's process id through the pipe.
    """
    command = [sys.executable, "-I", "-S", reaper.__file__]
    guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    assert guard.stdin is not None
    try:
        yield guard.stdin
    finally:
        guard.stdin.close()


def child_variables(extra: Mapping[str, str]) -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **extra}


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
