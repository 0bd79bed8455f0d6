"""Which checkpoint of an RL stage to go on from: the newest one that is whole.

verl's ``latest_checkpointed_iteration.txt`` says which it wrote last. That is a hint: it is read where a checkpoint has no
manifest, and written so that verl goes on from where we do.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from records.files.manifest import MANIFEST, Flaw, flaw_in, is_small, seal

PREFIX = "global_step_"
MODEL = "actor/huggingface"
TRACKER = "latest_checkpointed_iteration.txt"


@dataclass(frozen=True)
class Newest:
    """``step`` 0: there is none. ``flaws``: by step, of newer ones, which cannot be gone on from, and of older ones."""

    step: int
    flaws: tuple[tuple[int, Flaw], ...] = ()


def folder_of(root: Path, step: int) -> Path:
    return root / f"{PREFIX}{step}"


def newest(root: Path, content: bool = False) -> Newest:
    """The newest whole checkpoint under ``root``. What a kill left half written is no checkpoint, and no flaw.

    ``content``: its files are read too; else their sizes must do, as they must for older ones that are large.
    """
    step, flaws = 0, []
    for number in steps(root):
        folder = folder_of(root, number)
        flaw = flaw_in(folder, content and (not step or is_small(folder)))
        if flaw:
            flaws.append((number, flaw))
        if not step and (flaw is None or flaw.unsealed):
            step = number
    return Newest(step, tuple(flaws))


def said(root: Path) -> str | None:
    """What verl's file says, shortened; None where there is no such file."""
    path = root / TRACKER
    return path.read_bytes()[:20].decode("ascii", "replace").strip() if path.exists() else None


def say_newest(root: Path, step: int) -> None:
    """Tell verl; with 0 that there is none."""
    if step:
        (root / TRACKER).write_text(str(step))
    else:
        (root / TRACKER).unlink(missing_ok=True)


def seal_newest(root: Path, step: int) -> None:
    """The checkpoint of ``step`` has been written. What verl leaves of those that it removes for it is no checkpoint."""
    seal(folder_of(root, step))
    for older in (folder_of(root, number) for number in _with(root, MANIFEST) if number < step):
        if not (older / "actor").exists():
            shutil.rmtree(older)


def steps(root: Path) -> list[int]:
    """Of all checkpoints that were once whole, newest first: those with a manifest, and those no newer than the one that verl
    says it wrote last."""
    told = said(root) or ""
    last = int(told) if told.isdecimal() else 0
    return sorted({*_with(root, MANIFEST), *(step for step in _with(root, "actor") if step <= last)}, reverse=True)


def _with(root: Path, name: str) -> list[int]:
    names = [path.parent.name.removeprefix(PREFIX) for path in root.glob(f"{PREFIX}*/{name}")]
    return [int(name) for name in names if name.isdecimal()]
