"""Sealed folders: ``manifest.json``, written last, lists size and sha256 of every file.

Sizes are compared whenever a folder is used, checksums when a run resumes from it. One core hashes
about 1.3 GiB a second.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec

from turngrid.envs.utils.files import write_whole

MANIFEST = "manifest.json"
THREADS = 8  # files hashed at once; hashing releases Python's lock


class Sealed(msgspec.Struct, frozen=True):
    size: int
    sha256: str


class _Manifest(msgspec.Struct):
    files: dict[str, Sealed]


@dataclass(frozen=True)
class Flaw:
    """A damaged file.

    Attributes:
        wrong: the damage, in words that follow the file's name.
        unsealed: whether there is no manifest.
    """

    path: Path
    wrong: str
    unsealed: bool = False


def seal(folder: Path) -> None:
    """Write the manifest of the files in ``folder``."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)
    entries = {
        file.relative_to(folder).as_posix(): {"size": file.stat().st_size, "sha256": digest}
        for file, digest in zip(files, _sums(files), strict=True)
    }
    write_whole(folder / MANIFEST, json.dumps({"files": entries}, indent=1) + "\n")


def flaw_in(folder: Path, content: bool, inside: str = "") -> Flaw | None:
    """Return the first difference of a folder from its manifest; None if there is none.

    Args:
        content: compare checksums too, not only sizes.
        inside: only check this subfolder.
    """
    manifest = folder / MANIFEST
    try:
        files = msgspec.json.decode(manifest.read_bytes(), type=_Manifest).files
    except FileNotFoundError:
        return Flaw(manifest, "is missing", unsealed=True)
    except ValueError:
        return Flaw(manifest, "cannot be read")
    sealed = {folder / name: entry for name, entry in files.items() if name.startswith(inside)}
    for path, entry in sealed.items():
        if not path.exists():
            return Flaw(path, "is missing")
        if (size := path.stat().st_size) != entry.size:
            return Flaw(path, f"has {size} bytes instead of {entry.size}")
    sums = zip(sealed.items(), _sums(sealed), strict=True) if content else ()
    changed = (path for (path, entry), digest in sums if digest != entry.sha256)
    return next((Flaw(path, "has other content than was written (sha256)") for path in changed), None)


def _sums(files: Iterable[Path]) -> list[str]:
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(_sha256, files))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
