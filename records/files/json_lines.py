"""JSON lines that processes append to, which a kill may cut short at any moment."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from turngrid.envs.utils.files import write_whole

BROKEN = object()  # stands for a line that is no record


def append_line(path: Path, record: Any) -> None:
    """Append a mapping or dataclass to disk, on a new line even if a kill cut the last short."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            file.write(b"\n" * (file.read(1) != b"\n"))
        file.write(_line(record).encode())
        file.flush()
        os.fsync(file.fileno())


def write_lines(path: Path, records: Iterable[Any]) -> None:
    """Write a file of mappings or dataclasses atomically."""
    write_whole(path, "".join(map(_line, records)))


def _line(record: Any) -> str:
    return json.dumps(record, default=asdict) + "\n"


def read_lines(path: Path) -> list[Any]:
    """Return the records in the whole lines of a file; [] if there is no file."""
    return [record for record in _records(path) if record is not BROKEN]


def whole_lines(path: Path) -> list[bool]:
    """Return for each line of a file whether it is whole; [] if there is no file."""
    return [record is not BROKEN for record in _records(path)]


def _records(path: Path) -> Iterator[Any]:
    """Yield each line's record: an object, or None as for an episode without credit."""
    lines = path.read_bytes().removesuffix(b"\n").split(b"\n") if path.exists() and path.stat().st_size else []
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            record = BROKEN
        yield record if isinstance(record, dict | None) else BROKEN
