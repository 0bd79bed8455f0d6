"""An extended run begins as a copy of the run that it extends, which stays as it is.

The copy has the newest whole checkpoint, the SFT model, opponents from the policy's past, games,
episodes, metrics, credit and attempts, but no results. Models and checkpoints are hard links if
possible: no run writes to one again.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from turngrid.records.files import checkpoints
from turngrid.records.process.exit_codes import Refusal
from turngrid.records.resume import RlFolder

DRAFTS = ".extending"
EVALUATION = "evaluation/**/*.jsonl"
COPIED = (
    "attempts.jsonl",
    "stages.jsonl",
    "tasks/**/*.json*",
    "episodes/*.json*",
    "sft/*.*",
    "rl/*.*",
    "rl/**/*.jsonl",
)


def copy_run(source: Path, target: Path, evaluation: bool) -> int:
    """Copy the run to ``target`` in one rename, so that a kill leaves a whole copy or none.

    Returns:
        The step from which the copy resumes.

    Raises:
        Refusal: the run has no whole checkpoint.
    """
    rl = RlFolder(source)
    step = checkpoints.newest(rl.checkpoints, content=True)
    if not step:
        raise Refusal(f"extend={source} has no whole RL checkpoint; repeat its own command to go on with it")
    draft = target.parent / DRAFTS / target.name
    shutil.rmtree(draft, ignore_errors=True)
    for file in _files(source, evaluation):
        copy = draft / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, copy)
    saved = checkpoints.folder_of(rl.checkpoints, step)
    for folder in (path for path in (saved, source / "sft" / "model", rl.opponents) if path.exists()):
        shutil.copytree(folder, draft / folder.relative_to(source), copy_function=_link_or_copy)
    checkpoints.go_on_from(RlFolder(draft).checkpoints, step)
    draft.rename(target)
    with suppress(OSError):  # another process may be making an extension of the same run
        draft.parent.rmdir()
    return step


def _files(source: Path, evaluation: bool) -> set[Path]:
    evaluations = (path for path in source.glob(EVALUATION) if evaluation and not path.stem.startswith("rl"))
    files = {*evaluations, *(path for pattern in COPIED for path in source.glob(pattern))}
    return {path for path in files if path.is_file() and not path.name.startswith(".")}


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)
