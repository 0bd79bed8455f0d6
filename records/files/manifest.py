"""How to tell that files and folders, once written whole, still are.

A folder is sealed by ``manifest.json``, written last: sizes and sha256 of all files in it. Sizes are compared whenever the
folder is looked at, checksums where a run goes on from it: one core hashes about 1.3 GiB a second.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec

from envs.utils.files import write_whole
from records.files.damage import is_aside

MANIFEST = "manifest.json"
SAFETENSORS_HEAD = 8  # bytes: the length of the header that follows
SMALL = 2**30  # bytes that are hashed in about a second
THREADS = 8  # files that are hashed at once; hashing leaves Python's lock alone


class Sealed(msgspec.Struct, frozen=True):
    size: int
    sha256: str


class _Manifest(msgspec.Struct):
    files: dict[str, Sealed]


@dataclass(frozen=True)
class Flaw:
    """What is wrong with a file, in words that follow its name. ``unsealed``: only the manifest itself is lost."""

    path: Path
    wrong: str
    unsealed: bool = False


def seal(folder: Path) -> None:
    """Write the manifest of what lies in ``folder`` now."""
    files = _files(folder)
    with ThreadPoolExecutor(THREADS) as pool:
        sums = list(pool.map(_sha256, files))
    entries = {
        file.relative_to(folder).as_posix(): {"size": file.stat().st_size, "sha256": digest}
        for file, digest in zip(files, sums, strict=True)
    }
    write_whole(folder / MANIFEST, json.dumps({"files": entries}, indent=1) + "\n")


def flaw_in(folder: Path, content: bool, inside: str = "") -> Flaw | None:
    """What is wrong with a folder that should be whole; None where nothing is.

    Without a manifest that can be read, a folder is as whole as its files look: the flaw is then that of the manifest.

    Args:
        content: look into the files too, and not at their sizes alone.
        inside: look no further than this folder in it.
    """
    manifest = folder / MANIFEST
    try:
        files = msgspec.json.decode(manifest.read_bytes(), type=_Manifest).files
    except (FileNotFoundError, ValueError) as error:
        wrong = "is missing" if isinstance(error, FileNotFoundError) else "cannot be read"
        closed = next((file for file in _files(folder) if not opens(file)), None) if content else None
        return Flaw(closed, "cannot be read") if closed else Flaw(manifest, wrong, unsealed=True)
    sealed = {name: entry for name, entry in files.items() if name.startswith(inside)}
    for name, entry in sealed.items():
        if words := size_is_wrong(folder / name, entry.size):
            return Flaw(folder / name, words)
    return _hashes_differ(folder, sealed) if content else None


def is_small(folder: Path) -> bool:
    """So little that its checksums cost nothing."""
    return sum(file.stat().st_size for file in _files(folder)) < SMALL


def size_is_wrong(path: Path, size: int) -> str:
    """In words, what became of a file that had ``size`` bytes; "" where it still has as many."""
    if not path.exists():
        return "is missing"
    now = path.stat().st_size
    if now == size:
        return ""
    return "is empty" if not now else f"is cut short ({now} of {size} bytes)" if now < size else f"is not {size} bytes"


def opens(path: Path) -> bool:
    """Whether a file looks whole by its own format: safetensors, torch's archives, JSON. Of other formats, that it is not
    empty."""
    try:
        return path.stat().st_size > 0 and _FORMATS.get(path.suffix, lambda _: True)(path)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return False


def _hashes_differ(folder: Path, sealed: Mapping[str, Sealed]) -> Flaw | None:
    with ThreadPoolExecutor(THREADS) as pool:
        sums = pool.map(_sha256, [folder / name for name in sealed])
        changed = [name for name, digest in zip(sealed, sums, strict=True) if sealed[name].sha256 != digest]
    return Flaw(folder / changed[0], "has another content than was written (sha256)") if changed else None


def _files(folder: Path) -> list[Path]:
    found = (path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)
    return sorted(path for path in found if not is_aside(path.relative_to(folder)))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_safetensors(path: Path) -> bool:
    """Its header says how long it is."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(SAFETENSORS_HEAD), "little")
        if length > path.stat().st_size:
            return False
        header = json.loads(file.read(length))
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    return path.stat().st_size == SAFETENSORS_HEAD + length + max(ends, default=0)


def _is_archive(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive:
        return archive.testzip() is None


def _is_json(path: Path) -> bool:
    json.loads(path.read_text(encoding="utf-8"))
    return True


_FORMATS: dict[str, Callable[[Path], bool]] = {
    ".safetensors": _is_safetensors,
    ".pt": _is_archive,
    ".json": _is_json,
}
