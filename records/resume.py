"""What a killed RL stage leaves behind, brought back to its last checkpoint.

Everything beyond the last saved step (metrics, episodes, credit, validation) moves to ``discarded/`` and is charged to nobody. Groups of an
asynchronous trainer are sorted by ``verl_plugin.training.rollout_groups``, once the trainer has read what its
checkpoint knows of them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from envs.utils.files import write_whole
from records import turns_played
from records.files import checkpoints
from records.files.damage import is_aside
from records.metrics import read_metrics


class RlFolder:
    """Where the RL stage keeps its things, inside the run folder."""

    def __init__(self, run_folder: Path) -> None:
        self.root = run_folder / "rl"
        self.checkpoints = self.root / "checkpoints"
        self.episodes = self.root / "episodes"
        self.credit = self.root / "credit"
        self.replayed = self.root / "replayed"
        self.validation = self.root / "validation"
        self.metrics = self.root / "metrics.jsonl"
        self.groups = self.root / "groups"  # asynchronous trainers only, as is the next
        self.stale = self.root / "stale"
        self.discarded = self.root / "discarded"
        self.config = self.root / "config.yaml"

    def saved_step(self) -> int:
        """The last step whose checkpoint is whole, by the sizes of its files; 0 before the first."""
        return checkpoints.newest(self.checkpoints).step

    def model(self, step: int) -> Path:
        return checkpoints.folder_of(self.checkpoints, step) / checkpoints.MODEL

    def step_episodes(self, step: int) -> Path:
        return self.episodes / f"{step:06d}.jsonl"

    def new_attempt(self) -> Path:
        """A folder for what is discarded now; not made yet."""
        return self.discarded / f"{len(_entries(self.discarded)):03d}"


def discard_beyond_checkpoint(rl: RlFolder) -> int:
    """Move what is newer than the last checkpoint out of the way; returns that checkpoint's step."""
    step = rl.saved_step()
    for begun in [path for path in [*_entries(rl.episodes), *_entries(rl.validation)] if path.is_dir()]:
        (begun / turns_played.FILE).unlink(missing_ok=True)
        if not _entries(begun):
            begun.rmdir()  # a step of which nothing was recorded is nothing to discard
    late = {folder: _late(folder, step) for folder in (rl.episodes, rl.credit, rl.replayed, rl.validation)}
    lines = list(read_metrics(rl.metrics))
    if any(late.values()) or any(line["step"] > step for line in lines):
        attempt = rl.new_attempt()
        for folder, paths in late.items():
            (attempt / folder.name).mkdir(parents=True, exist_ok=True)
            for path in paths:
                shutil.move(path, attempt / folder.name / path.name)
        if dropped := [line for line in lines if line["step"] > step]:
            (attempt / "metrics.jsonl").write_text(_jsonl(dropped), encoding="utf-8")
            write_whole(rl.metrics, _jsonl([line for line in lines if line["step"] <= step]))
    return step


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def _late(folder: Path, step: int) -> list[Path]:
    """Of a later step, or the drafts of one. What was damaged stays beside what is left of it."""
    entries = [path for path in _entries(folder) if not is_aside(Path(path.name))]
    return [path for path in entries if not path.stem.isdigit() or int(path.stem) > step or path.is_dir()]


def _jsonl(lines: list[dict]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)
