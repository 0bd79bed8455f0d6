"""RL checkpoints: choose the one to resume from, and tell verl which it is.

A checkpoint counts once it is sealed. verl's file ``latest_checkpointed_iteration.txt`` names the
one that verl wrote last: it is whole even if a kill came before its seal.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from turngrid.records.files.manifest import MANIFEST, Flaw, flaw_in, seal

PREFIX = "global_step_"
MODEL = "actor/huggingface"
NOTE = "latest_checkpointed_iteration.txt"


@dataclass(frozen=True)
class Newest:
    """The newest whole checkpoint.

    Args:
        step: 0 if there is none.
        flaws: damage of newer checkpoints, by step.
    """

    step: int
    flaws: tuple[tuple[int, Flaw], ...] = ()


def folder_of(root: Path, step: int) -> Path:
    return root / f"{PREFIX}{step}"


def newest(root: Path, content: bool = False, before: float = float("inf")) -> Newest:
    """Return the newest whole checkpoint under ``root``.

    Args:
        content: compare checksums too, not only sizes.
        before: only consider checkpoints of earlier steps.
    """
    flaws: list[tuple[int, Flaw]] = []
    for step in (step for step in steps(root) if step < before):
        flaw = flaw_in(folder_of(root, step), content)
        if flaw is None or flaw.unsealed:
            return Newest(step, tuple(flaws))
        flaws.append((step, flaw))
    return Newest(0, tuple(flaws))


def steps(root: Path) -> list[int]:
    """Return the steps of all checkpoints that were complete at some time, newest first."""
    noted = [step for step in _with(root, "actor") if str(step) == _noted(root)]
    return sorted({*_with(root, MANIFEST), *noted}, reverse=True)


def seal_newest(root: Path, step: int) -> None:
    """Seal the checkpoint of ``step``; delete files that verl leaves of older checkpoints that it
    removes.
    """
    seal(folder_of(root, step))
    for older in (folder_of(root, number) for number in _with(root, MANIFEST) if number < step):
        if not (older / "actor").exists():
            shutil.rmtree(older)


def go_on_from(root: Path, step: int) -> None:
    """Make verl resume from the checkpoint of ``step``; 0: from the beginning."""
    if step and _noted(root) != str(step):
        (root / NOTE).write_text(str(step))
    elif not step:
        (root / NOTE).unlink(missing_ok=True)


def _noted(root: Path) -> str:
    note = root / NOTE
    return note.read_bytes()[:20].decode("ascii", "replace").strip() if note.exists() else ""


def _with(root: Path, name: str) -> list[int]:
    numbers = [path.parent.name.removeprefix(PREFIX) for path in root.glob(f"{PREFIX}*/{name}")]
    return [int(number) for number in numbers if number.isdecimal()]
