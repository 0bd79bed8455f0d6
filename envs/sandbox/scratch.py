"""Temporary folders that name their owner, so that what a killed process left can be told from what is in use."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_NAME = "turngrid-"


def prefix() -> str:
    """The beginning of a temporary folder's name: this process, and the numbering that its process number is from."""
    return f"{_NAME}{_numbering()}-{os.getpid()}-"


def sweep() -> None:
    """Remove the folders of processes that are gone. Those of another numbering (a container that shares the folder)
    are left alone: nobody here can tell whether their owners live."""
    ours = f"{_NAME}{_numbering()}-"
    for folder in Path(tempfile.gettempdir()).glob(f"{ours}*"):
        pid = folder.name.removeprefix(ours).split("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(folder, ignore_errors=True)


def _numbering() -> int:
    return os.stat("/proc/self/ns/pid").st_ino
