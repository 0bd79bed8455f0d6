"""Putting a damaged file aside, so that it is neither used nor lost."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

from envs.utils.files import write_whole

DAMAGED, OUTDATED = "damaged", "outdated"


def set_aside(path: Path, word: str = DAMAGED) -> Path:
    """Rename a file or folder to the first free ``NAME.<word>-1``, ``-2``, ...; returns where it is then."""
    place = _free(path, word)
    path.rename(place)
    return place


def keep_instead(path: Path, content: bytes) -> Path:
    """Put ``content`` in the place of a damaged file, of which a copy is set aside first; returns where that is."""
    place = _free(path, DAMAGED)
    shutil.copy2(path, place)
    write_whole(path, content)
    return place


def is_aside(path: Path) -> bool:
    """``path``: inside the run folder."""
    return any(f".{word}-" in part for part in path.parts for word in (DAMAGED, OUTDATED))


def _free(path: Path, word: str) -> Path:
    names = (path.with_name(f"{path.name}.{word}-{number}") for number in count(1))
    return next(name for name in names if not name.exists())
