"""The folder of an RL stage, and the return of a killed stage to its last checkpoint.

Everything after the last saved step moves to ``rl/discarded/`` and is not charged. Groups of an
asynchronous trainer are sorted by ``turngrid.verl_plugin.training.rollout_groups``, after the
trainer has read its checkpoint.
"""

import asyncio
import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path

from turngrid.records.files import checkpoints
from turngrid.records.files.json_lines import read_lines, write_lines

TURNS = ".turns"  # in the folder of a step: a byte for each sampled turn of an unfinished episode
SECONDS = 1.0  # seconds between two writes of a process, since the folder may be on a slow disk


class RlFolder:
    """The files of the RL stage inside the run folder."""

    def __init__(self, run_folder: Path) -> None:
        self.root = run_folder / "rl"
        self.checkpoints = self.root / "checkpoints"
        self.episodes = self.root / "episodes"
        self.credit = self.root / "credit"
        self.replayed = self.root / "replayed"
        self.validation = self.root / "validation"
        self.probe = self.root / "probe"  # of the doctor only
        self.metrics = self.root / "metrics.jsonl"
        self.alarms = self.root / "alarms.jsonl"
        self.shared = self.root / "shared_state.pt"  # of methods that the rollout reads
        self.opponents = self.root / "opponents"  # kept weights of rollout_form.self_play.opponent=past
        self.library = self.root / "library"  # texts that the policy wrote
        self.rollbacks = self.root / "rollbacks.jsonl"
        self.groups = self.root / "groups"  # this and the next: asynchronous trainers only
        self.stale = self.root / "stale"
        self.discarded = self.root / "discarded"
        self.config = self.root / "config.yaml"

    def saved_step(self) -> int:
        """Return the newest checkpoint's step, checked by file sizes only; 0 if there is none."""
        return checkpoints.newest(self.checkpoints)

    def model(self, step: int) -> Path:
        return checkpoints.folder_of(self.checkpoints, step) / checkpoints.MODEL

    def step_episodes(self, step: int) -> Path:
        return self.episodes / f"{step:06d}.jsonl"

    def new_attempt(self) -> Path:
        """Return a new folder for discarded files, after all others; it is not created yet."""
        numbers = [int(entry.name) for entry in _entries(self.discarded) if entry.name.isdigit()]
        return self.discarded / f"{max(numbers, default=-1) + 1:03d}"

    def last_attempt(self) -> Path:
        """Return the newest folder of discarded files, a new one if there is none."""
        return (_entries(self.discarded) or [self.new_attempt()])[-1]


def discard_beyond_checkpoint(rl: RlFolder) -> int:
    """Move files newer than the last checkpoint to ``rl/discarded/``; return its step."""
    step = rl.saved_step()
    checkpoints.go_on_from(rl.checkpoints, step)
    for begun in [path for path in [*_entries(rl.episodes), *_entries(rl.validation)] if path.is_dir()]:
        (begun / TURNS).unlink(missing_ok=True)
        if not _entries(begun):
            begun.rmdir()  # a step without an episode is not discarded
    late = {  # entries of later steps, and the drafts of an unfinished step
        folder: [p for p in _entries(folder) if not p.stem.isdigit() or int(p.stem) > step or p.is_dir()]
        for folder in (rl.episodes, rl.credit, rl.replayed, rl.validation, rl.library)
    }
    lines = read_lines(rl.metrics)
    if any(late.values()) or any(line["step"] > step for line in lines):
        attempt = rl.new_attempt()
        for folder, paths in late.items():
            (attempt / folder.name).mkdir(parents=True, exist_ok=True)
            for path in paths:
                shutil.move(path, attempt / folder.name / path.name)
        if dropped := [line for line in lines if line["step"] > step]:
            write_lines(attempt / "metrics.jsonl", dropped)
            write_lines(rl.metrics, [line for line in lines if line["step"] <= step])
    return step


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


class TurnCounter:
    """Adds this process's turns to files that other processes share."""

    def __init__(self) -> None:
        self._waiting: Counter[Path] = Counter()

    def add(self, folder: Path) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_later(SECONDS, self._write)
        self._waiting[folder] += 1

    def _write(self) -> None:
        for folder, turns in self._waiting.items():
            with suppress(OSError), (folder / TURNS).open("ab") as file:  # no folder if the step has ended
                file.write(b"." * turns)
        self._waiting.clear()


def turns_played(folder: Path) -> int:
    """Return the turns of all processes; 0 if there is no such folder."""
    with suppress(FileNotFoundError):
        return (folder / TURNS).stat().st_size
    return 0
