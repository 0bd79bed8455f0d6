"""An extended run begins as a copy of the run that it extends, which stays as it is.

Copied are the newest whole checkpoint, the SFT model, the games, episodes, metrics, credit and the
record of attempts. The results are those of the shorter run, and are not. Models and checkpoints
are hard links where the file system has them: no run writes to one again.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from records.files import checkpoints, inventory
from records.process.exit_codes import Refusal
from records.resume import RlFolder

DRAFTS = ".extending"
NOT_COPIED = ("result.json", "ledger.jsonl", "learning_curve.png", "config.yaml")
EVALUATION = "evaluation"


def copy_run(source: Path, target: Path, evaluation: bool) -> int:
    """Make ``target`` in one rename, so that a kill leaves all of it or nothing; returns the step that it goes on from.

    Args:
        evaluation: the base and SFT models' test episodes are copied too, since the evaluation is the same.

    Raises:
        Refusal: there is no checkpoint to go on from.
    """
    step = checkpoints.newest(RlFolder(source).checkpoints, content=True).step
    if not step:
        raise Refusal(f"extend={source} has no whole RL checkpoint; repeat its own command to go on with it")
    draft = target.parent / DRAFTS / target.name
    shutil.rmtree(draft, ignore_errors=True)
    for file in _files(source, evaluation):
        place = draft / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, place)
    rl, ours = RlFolder(source), RlFolder(draft)
    _link_folder(checkpoints.folder_of(rl.checkpoints, step), checkpoints.folder_of(ours.checkpoints, step))
    _link_folder(source / "sft" / "model", draft / "sft" / "model")
    checkpoints.say_newest(ours.checkpoints, step)
    inventory.take(draft)
    draft.rename(target)
    with suppress(OSError):  # another extension is being made beside it
        draft.parent.rmdir()
    return step


def _files(source: Path, evaluation: bool) -> list[Path]:
    """Small ones, some of which a run appends to."""
    rl, found = RlFolder(source), inventory.files(source)
    kept = (path for path in found if path.name not in NOT_COPIED and rl.checkpoints not in path.parents)
    played = source / EVALUATION
    return [path for path in kept if played not in path.parents or (evaluation and path.stem != "rl")]


def _link_folder(source: Path, target: Path) -> None:
    """A run without SFT has no such model."""
    if source.exists():
        shutil.copytree(source, target, copy_function=_link_or_copy, dirs_exist_ok=True)


def _link_or_copy(source: str, target: str) -> None:
    Path(target).unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)
