"""Checks of the folders that a run writes to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig

from turngrid.config.values.values import shown
from turngrid.records.run_folder import name_parts

LONGEST = 255  # maximum bytes of a file name on every file system
ADDED = len("-s4294967295-01234567.000")  # bytes for seed, hash, and the number that .old/ adds


def unusable(config: DictConfig) -> Iterator[str]:
    for key, folder in {"output_dir": config.output_dir, "env.cache_dir": config.env.cache_dir}.items():
        if folder is not None and (reason := _reason(folder)):
            yield f"{key}={folder} {reason}; use another folder"


def too_long(config: DictConfig) -> Iterator[str]:
    parts = name_parts(config)
    key, word = max(parts.items(), key=lambda part: len(part[1].encode()))
    length = len("-".join(parts.values()).encode()) + ADDED
    if length > LONGEST:
        yield (
            f"{key}={shown(word)}: the name of the run's folder has {length} bytes, and file systems take {LONGEST}; "
            "use a shorter name"
        )


def _reason(folder: str) -> str | None:
    """Return why a folder cannot be written to; one that does not exist is made in its nearest
    existing parent.
    """
    if not folder.strip():
        return "is empty"
    try:
        path = Path(folder).expanduser().absolute()
        there = next(parent for parent in (path, *path.parents) if parent.exists())
    except (OSError, RuntimeError, ValueError) as error:  # a name that is too long, an unknown user's home, a null byte
        return f"is no path ({error})"
    if not there.is_dir():
        return "is a file" if there == path else f"lies below {there}, which is a file"
    return None if os.access(there, os.W_OK) else f"cannot be written to ({there})"
