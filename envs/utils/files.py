"""Atomic writes, removals, and numbered paths."""

import os
import shutil
from collections.abc import Callable
from itertools import count
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


def first_free(path_of: Callable[[str], Path]) -> Path:
    """Return the first of the paths for "000", "001", ... where nothing is."""
    paths = (path_of(f"{number:03d}") for number in count())
    return next(path for path in paths if not path.exists())


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
