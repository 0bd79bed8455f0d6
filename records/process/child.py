"""Child processes, for stages and launched runs, which end if this process is killed."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import IO

from turngrid.envs.types import EnvError
from turngrid.envs.utils.child_path import child_path
from turngrid.envs.utils.parent import die_with_parent
from turngrid.records.process import reaper
from turngrid.records.process.exit_codes import FAILED, Failure, say

POLL_SECONDS = 0.2
TAIL_LINES = 15
VLLM_ON_CPU = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # the default binds a thread to a core that other processes use
    "TORCHDYNAMO_DISABLE": "1",  # otherwise the sampler is compiled, which needs g++ and a path without a space
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
}
LAUNCHED = "TURNGRID_LAUNCHED"  # environment variable of a launched run: do not launch it again
_REASON = "TURNGRID_REASON"  # environment variable with the file to which a stage writes its error


class StageFailed(Failure):
    """A stage's process failed; the message has the end of its log and the log's path."""


def run_child(
    module: str,
    arguments: Sequence[str],
    *,
    folder: Path,
    log: Path,
    variables: Mapping[str, str] | None = None,
    on_poll: Callable[[], None] = lambda: None,
) -> None:
    """Run ``python -P -m module`` in ``folder`` to its end, with ``on_poll`` a few times a second.

    With ``-P`` no module of ``folder`` is imported, only those that this process would import.

    Raises:
        StageFailed: the exit code is not 0.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    _reason_file(log).unlink(missing_ok=True)
    own = {**(variables or {}), _REASON: str(_reason_file(log))}
    with _guarded([sys.executable, "-P", "-m", module, *arguments], folder, log, own) as process:
        while process.poll() is None:
            on_poll()
            time.sleep(POLL_SECONDS)
    on_poll()
    if process.returncode != 0:
        ended = f"{module} ended with exit code {process.returncode}; see {log}"
        if _reason_file(log).exists():
            raise StageFailed(f"{_reason_file(log).read_text(encoding='utf-8')}\n{ended}")
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        raise StageFailed("\n".join([ended, *(f"  | {line}" for line in lines[-TAIL_LINES:])]))


def stage_exit_code(run: Callable[[], object]) -> int:
    """Call ``run`` in a stage's process and return the exit code.

    A foreseen error's message is passed to the parent's ``StageFailed``.
    """
    try:
        run()
    except (Failure, EnvError) as error:
        say(str(error))
        give_reason(str(error))
        return FAILED
    return 0


def give_reason(message: str) -> None:
    """Pass on, from a stage's process, what the parent's ``StageFailed`` says."""
    Path(os.environ.get(_REASON, os.devnull)).write_text(message, encoding="utf-8")


def _reason_file(log: Path) -> Path:
    return log.with_suffix(".reason")


@contextmanager
def _guarded(command: Sequence[str], folder: Path, log: Path, variables: Mapping[str, str]) -> Iterator[Popen[bytes]]:
    """Run a command at most until the block ends.

    The reaper ends its descendants when this process is gone or the block has ended.
    """
    guard = Popen([sys.executable, "-I", reaper.__file__], stdin=subprocess.PIPE, start_new_session=True)
    assert guard.stdin is not None
    with log.open("ab") as output, guard.stdin as pipe:
        process = started(command, output, variables, folder)
        pipe.write(f"{process.pid}\n".encode())
        pipe.flush()
        try:
            yield process
        finally:
            stop(process)


def started(
    command: Sequence[str], output: IO[bytes], variables: Mapping[str, str], folder: Path | None = None
) -> Popen[bytes]:
    """Start a command with further ``variables``; it ends if this process ends."""
    return Popen(
        command,
        cwd=folder,
        env=child_variables(variables),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - one prctl call, safe after a fork
    )


def child_variables(extra: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with its search path as ``PYTHONPATH``, and ``extra``."""
    return {**os.environ, "PYTHONPATH": child_path(), "PYTHONUNBUFFERED": "1", **extra}


def stop(process: Popen[bytes], seconds: float = 10) -> None:
    """End a process; kill it if it is still alive after so many seconds."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
