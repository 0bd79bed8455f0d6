"""Temporary folders named by their process, so that those of killed processes can be removed."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_NAME = "turngrid-"


def prefix() -> str:
    """Return the prefix of a folder's name: this process's namespace and id."""
    return f"{_NAME}{_namespace()}-{os.getpid()}-"


def sweep() -> None:
    """Remove the folders of dead processes; other namespaces' processes cannot be checked."""
    ours = f"{_NAME}{_namespace()}-"
    for folder in Path(tempfile.gettempdir()).glob(f"{ours}*"):
        pid = folder.name.removeprefix(ours).split("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(folder, ignore_errors=True)


def _namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino
