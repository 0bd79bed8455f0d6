"""Files of the groups of an asynchronous RL stage, kept until a checkpoint records what became of
each group.

An asynchronous step trains on groups that were sampled at any earlier time, and its checkpoints
hold groups that wait. So a group's file stays here until a checkpoint is complete. By then the
group was trained on and is in that step's record, was too old (``rl/stale/``), or still waits.
After a kill, groups that are not in the last checkpoint go to ``rl/discarded/`` and are sampled
again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from turngrid.envs.utils.files import write_whole
from turngrid.records.resume import RlFolder

READY = "finished"  # verl's status of a group whose samples have all ended


class _Line(msgspec.Struct):
    group: str = ""


class RolloutGroups:
    """``rl/groups/``: one file a group, ``<prompt id>.jsonl``, or ``.failed`` with the cause."""

    def __init__(self, rl: RlFolder) -> None:
        self._rl = rl
        self.folder = rl.groups
        self.folder.mkdir(parents=True, exist_ok=True)

    def file(self, group: str) -> Path:
        return self.folder / f"{group}.jsonl"

    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*.jsonl"))

    def failures(self) -> list[Path]:
        return sorted(self.folder.glob("*.failed"))

    def settle(self, step: int, waiting: Iterable[str]) -> None:
        """Once the checkpoint of ``step`` is complete, keep only the files of the groups in
        ``waiting``.
        """
        known = set(waiting)
        self._file_away(step, [file for file in self.files() if file.stem not in known])

    def restore(self, step: int, groups: Mapping[str, str]) -> list[str]:
        """Go back to the checkpoint of ``step``, which holds these groups with their status.

        It can be repeated after a kill.

        Returns:
            The groups of the checkpoint that have no record left.
        """
        ready = [group for group, status in groups.items() if status == READY]
        for group in ready:
            if not self.file(group).exists():
                self._find_again(group)
        late: list[Path] = []
        past: list[Path] = []
        for file in self.files():
            if groups.get(file.stem) == READY:
                continue
            sampled_after = file.stem in groups or step_of(file.stem) > step
            (late if sampled_after else past).append(file)
        self._file_away(step, past)
        self._discard([*late, *self.failures()])
        self._take_back([self.file(group) for group in ready if self.file(group).exists()])
        return [group for group in ready if not self.file(group).exists()]

    def _file_away(self, step: int, files: Sequence[Path]) -> None:
        """Delete files of groups that are on record; move others, which were too old, to
        ``rl/stale``.
        """
        trained = self._trained(step, {file.stem for file in files})
        for file in files:
            if file.stem in trained:
                file.unlink()
            else:
                _move(file, self._rl.stale / f"{step:06d}")

    def _trained(self, step: int, wanted: set[str]) -> set[str]:
        """Return the groups of ``wanted`` that are in a step's record, up to ``step``."""
        first = min(map(step_of, wanted), default=step + 1)
        records = (self._rl.step_episodes(number) for number in range(first, step + 1))
        return {group for record in records if record.exists() for group in _groups(record)} & wanted

    def _discard(self, files: Sequence[Path]) -> None:
        """Move files to a new attempt; delete those that are in a discarded step's record."""
        wanted = {line for file in files for line in _lines(file)}
        recorded = {line for record in self._discarded() if wanted for line in _lines(record) if line in wanted}
        attempt = self._rl.new_attempt()
        for file in files:
            if recorded.issuperset(_lines(file)):
                file.unlink()
            else:
                _move(file, attempt / "episodes" / "groups")

    def _discarded(self) -> Iterator[Path]:
        """Yield the records of discarded steps."""
        return self._rl.discarded.glob("*/episodes/*.jsonl")

    def _find_again(self, group: str) -> None:
        """Restore a group's file from ``rl/stale`` or from a discarded step's record.

        If a checkpoint is damaged, the run resumes from an older one, which may hold groups that
        were trained on later.
        """
        for stale in self._rl.stale.glob(f"*/{group}.jsonl"):
            stale.rename(self.file(group))
            return
        for record in self._discarded():
            lines = [line for line, name in zip(_lines(record), _groups(record), strict=True) if name == group]
            if lines:
                write_whole(self.file(group), b"".join(line + b"\n" for line in lines).decode())
                return

    def _take_back(self, files: Sequence[Path]) -> None:
        """Remove waiting groups from discarded records; they would be charged twice."""
        kept = {line for file in files for line in _lines(file)}
        for record in self._discarded() if kept else ():
            lines = _lines(record)
            lost = [number for number, line in enumerate(lines) if line not in kept]
            credit = record.parents[1] / "credit" / record.name
            for path in (record, credit) if len(lost) < len(lines) else ():
                _keep_lines(path, lost)


def step_of(group: str) -> int:
    """Return the step in which a prompt was dispatched, from its id ``<step>-<number>``."""
    return int(group.partition("-")[0])


def _groups(record: Path) -> Iterator[str]:
    decoder = msgspec.json.Decoder(_Line)
    with record.open("rb") as file:
        for line in file:
            yield decoder.decode(line).group


def _lines(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines()


def _move(file: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.move(file, folder / file.name)


def _keep_lines(path: Path, numbers: Sequence[int]) -> None:
    if path.exists():
        lines = path.read_bytes().splitlines(keepends=True)
        draft = path.with_name(f".{path.name}.draft")
        draft.write_bytes(b"".join(lines[number] for number in numbers))
        draft.replace(path)
