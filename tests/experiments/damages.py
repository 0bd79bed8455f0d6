"""Copies of a run folder, and what can happen to a file in one."""

import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from omegaconf import DictConfig

from turngrid.experiments.stages.ledger import ledger
from turngrid.records.damage import DISCARDED
from turngrid.records.resume import RlFolder, discard_beyond_checkpoint
from turngrid.tasks.run import Run

Way = Callable[[Path], None]
# No run goes on from these: logs, the lock, what shows the run elsewhere, and drafts
LEFT_OUT = ("logs/", "tensorboard/", ".lock", "evaluation/.")


def cut_in_half(path: Path) -> None:
    _write(path, path.read_bytes()[: path.stat().st_size // 2])


def emptied(path: Path) -> None:
    _write(path, b"")


def rubbish(path: Path) -> None:
    """As long as it was."""
    _write(path, random.Random(path.name).randbytes(path.stat().st_size))


def missing(path: Path) -> None:
    path.unlink()


WAYS: tuple[Way, ...] = (cut_in_half, emptied, rubbish, missing)


def _write(path: Path, content: bytes) -> None:
    path.unlink()  # a copy shares its large files with the original
    path.write_bytes(content)


def copy(run: Path, to: Path) -> Path:
    return Path(shutil.copytree(run, to, copy_function=_copy_file))


def _copy_file(source: str, to: str) -> None:
    if source.endswith((".pt", ".safetensors", "tokenizer.json")):
        os.link(source, to)
    else:
        shutil.copy2(source, to)


def names(run: Path, last: int) -> list[str]:
    """Files of the run up to step ``last``: the rest goes to ``discarded/`` in any case."""
    found = sorted(path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file())
    return [name for name in found if not name.startswith(LEFT_OUT) and _step(name) <= last and not _seen(name, last)]


def _seen(name: str, last: int) -> bool:
    """Of older checkpoints, a few files stand for all."""
    older = "global_step_" in name and _step(name) < last
    return older and not name.endswith(("data.pt", "manifest.json", "model.safetensors"))


def _step(name: str) -> int:
    number = re.search(r"(?:global_step_|/0+)(\d+)", name)
    return int(number[1]) if number else 0


def sizes(folder: Path) -> dict[str, int]:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".lock"))
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}


def lost(run: Path, folder: Path, damaged: str) -> list[str]:
    """Files of ``run`` that are in its copy no more, by their name or in ``discarded/``."""
    aside = folder / DISCARDED / "000"
    return [name for name in sizes(run) if name != damaged and not any((at / name).exists() for at in (folder, aside))]


def go_on(config: DictConfig, folder: Path) -> None:
    """As a run that goes on: its stages' first look at the folder, and their books."""
    discard_beyond_checkpoint(RlFolder(folder))
    ledger(Run(config, folder))
