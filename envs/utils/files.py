"""Atomic writes and removals."""

import os
import shutil
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file atomically; a lone surrogate becomes a question mark."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("wb") as file:
        file.write(content.encode("utf-8", "replace") if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def remove_folder(path: Path) -> None:
    """Remove a folder, if it is there, into which another process may still write.

    A file that is created while the folder is emptied keeps it there, so it is emptied again.

    Raises:
        OSError: the folder cannot be removed.
    """
    shutil.rmtree(path, ignore_errors=True)
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        shutil.rmtree(path)
