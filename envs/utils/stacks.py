"""Stacks of all processes of a run, for a run that hangs.

Each process registers a file once. ``dump`` then asks all of them to write what their threads are
doing, which works while a process waits in C code or holds the interpreter lock.
"""

import faulthandler
import os
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil

FOLDER = "TURNGRID_STACKS"  # environment variable with the folder, in processes of a run
WRITING_SECONDS = 1.0

_file: IO[str] | None = None  # open as long as this process lives


def register() -> None:
    """Let ``dump`` write this process's stacks. It does nothing outside a run."""
    global _file
    if (folder := os.environ.get(FOLDER)) and _file is None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        _file = (Path(folder) / _name(psutil.Process())).open("w", encoding="utf-8")
        faulthandler.register(signal.SIGUSR2, file=_file, all_threads=True)


def dump() -> list[Path]:
    """Write the stacks of the run's processes on this machine, and return the files."""
    files = list(Path(os.environ.get(FOLDER, os.devnull)).glob(f"{socket.gethostname()}-*"))
    names = {file.name for file in files}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if _name(process) not in names:
                continue
            if _file and process.pid == os.getpid():
                # a signal could come while this thread's own stack changes
                faulthandler.dump_traceback(_file, all_threads=True)
            else:
                process.send_signal(signal.SIGUSR2)
    time.sleep(WRITING_SECONDS)
    return sorted(file for file in files if file.stat().st_size)


def ask(process: subprocess.Popen[bytes]) -> float:
    """Let a child that hangs write its stacks; return the seconds that it needs (0: no run)."""
    if FOLDER not in os.environ:
        return 0.0
    process.send_signal(signal.SIGUSR2)
    return WRITING_SECONDS


def tidy(folder: Path) -> None:
    """Remove the files that processes, which must have ended, have left empty."""
    for file in folder.glob("*.txt"):
        if not file.stat().st_size:
            file.unlink()


def _name(process: psutil.Process) -> str:
    """Return a file name that no later process with the same number has."""
    return f"{socket.gethostname()}-{process.pid}-{process.create_time():.2f}.txt"
