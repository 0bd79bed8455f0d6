"""Sealed folders, and which RL checkpoint to resume from.

A sealed folder has a ``manifest.json``, written last, with size and sha256 of every file. Sizes are
compared whenever a folder is used, checksums when a run resumes. A checkpoint counts once it is
sealed, or if verl's ``latest_checkpointed_iteration.txt`` names it: it is whole then.
"""

import hashlib
import json
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from turngrid.envs.utils.files import write_whole

MANIFEST = "manifest.json"
THREADS = 8  # files hashed at once; hashing releases Python's lock
PREFIX = "global_step_"
MODEL = "actor/huggingface"
METHODS = "methods.pt"  # the state of methods
NOTE = "latest_checkpointed_iteration.txt"


def seal(folder: Path) -> None:
    """Write the manifest of the files in ``folder``."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)
    entries = {
        file.relative_to(folder).as_posix(): {"size": file.stat().st_size, "sha256": digest}
        for file, digest in zip(files, _sums(files), strict=True)
    }
    write_whole(folder / MANIFEST, json.dumps({"files": entries}, indent=1) + "\n")


def is_sealed(folder: Path) -> bool:
    return (folder / MANIFEST).exists()


def flaw_in(folder: Path, content: bool = True, inside: str = "") -> str:
    """Return the first difference of a folder from its manifest, as ``FILE is missing``, or "".

    Without ``content`` only sizes are compared; ``inside`` names a subfolder.
    """
    if not is_sealed(folder):
        return f"{MANIFEST} is missing"
    try:
        entries = json.loads((folder / MANIFEST).read_bytes())["files"]
    except (ValueError, KeyError, TypeError):
        return f"{MANIFEST} cannot be read"
    sealed = {name: entry for name, entry in entries.items() if name.startswith(inside)}
    for name, entry in sealed.items():
        if not (folder / name).exists():
            return f"{name} is missing"
        if (size := (folder / name).stat().st_size) != entry["size"]:
            return f"{name} has {size} bytes instead of {entry['size']}"
    sums = zip(sealed.items(), _sums(folder / name for name in sealed), strict=True) if content else ()
    changed = (name for (name, entry), digest in sums if digest != entry["sha256"])
    return next((f"{name} has other content than was written (sha256)" for name in changed), "")


def _sums(files: Iterable[Path]) -> list[str]:
    def sha256(path: Path) -> str:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(sha256, files))


# ---- RL checkpoints


def folder_of(root: Path, step: int) -> Path:
    return root / f"{PREFIX}{step}"


def newest(root: Path, content: bool = False, before: float = float("inf")) -> int:
    """Return the step of the newest whole checkpoint, 0 without one; see ``flaw_at``."""
    return next((step for step in steps(root) if step < before and not flaw_at(root, step, content)), 0)


def flaw_at(root: Path, step: int, content: bool) -> str:
    """Return the damage of a complete checkpoint, by sizes, or with ``content`` by checksums."""
    folder = folder_of(root, step)
    return flaw_in(folder, content) if is_sealed(folder) else ""


def steps(root: Path) -> list[int]:
    """Return the steps of all checkpoints that were complete at some time, newest first."""
    noted = [step for step in _with(root, "actor") if str(step) == _noted(root)]
    return sorted({*_with(root, MANIFEST), *noted}, reverse=True)


def seal_newest(root: Path, step: int, keep: int | None) -> None:
    """Seal the checkpoint of ``step``; delete all but the newest ``keep`` (None: keep all).

    verl deletes only what the same process saved, and of that only the folders of models.
    """
    seal(folder_of(root, step))
    for older in sorted(_with(root, MANIFEST), reverse=True)[keep:] if keep else ():
        shutil.rmtree(folder_of(root, older))


def go_on_from(root: Path, step: int) -> None:
    """Make verl resume from the checkpoint of ``step``; 0: from the beginning."""
    if not step:
        (root / NOTE).unlink(missing_ok=True)
    elif _noted(root) != str(step):
        (root / NOTE).write_text(str(step))


def _noted(root: Path) -> str:
    note = root / NOTE
    return note.read_bytes()[:20].decode("ascii", "replace").strip() if note.exists() else ""


def _with(root: Path, name: str) -> list[int]:
    numbers = [path.parent.name.removeprefix(PREFIX) for path in root.glob(f"{PREFIX}*/{name}")]
    return [int(number) for number in numbers if number.isdecimal()]
