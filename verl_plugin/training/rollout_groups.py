"""The groups of an asynchronous RL stage, whose files are kept until a checkpoint is complete.

An asynchronous step trains on groups that were sampled at any earlier time, and its checkpoints
hold groups that wait. So a group's file stays in ``rl/groups/`` until a checkpoint is complete. By
then the group was trained on and is in that step's record, was too old (``rl/stale/``), or still
waits. After a kill, groups that are not in the last checkpoint go to ``rl/discarded/``.
"""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

import transfer_queue as tq
from transfer_queue import KVBatchMeta

from turngrid.envs.utils.files import write_whole
from turngrid.records.resume import RlFolder
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.store import read_episodes
from turngrid.verl_plugin.training.step import Metrics, Step
from turngrid.verl_plugin.training.step_records import StepGroups

PARTITION = "train"
READY = "finished"  # verl's status of a group whose samples have all ended


class AsyncGroups(StepGroups):
    """``rl/groups/``: one file a group, ``<prompt id>.jsonl``, or ``.failed`` with the cause."""

    def __init__(self, rl: RlFolder, prompts: int, step: Step) -> None:
        super().__init__(rl, prompts, step)
        rl.groups.mkdir(parents=True, exist_ok=True)
        self.trained: list[str] = []  # prompt ids of this step

    def file(self, group: str) -> Path:
        return self._rl.groups / f"{group}.jsonl"

    # ---- a step

    def begin(self) -> None:
        self.trained = []
        super().begin()

    def note(self, batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
        self.trained += sorted({key.split("_")[0] for key in batch.keys})
        return batch

    def files(self) -> list[Path]:
        return [self.file(group) for group in sorted(self.trained)]

    def failures(self) -> list[Path]:
        return sorted(self._rl.groups.glob("*.failed"))

    def metrics(self, groups: Sequence[Sequence[Episode]]) -> dict[str, float]:
        return staleness_metrics(list(chain.from_iterable(groups)), self._step.number)

    def recorded(self) -> None:
        super().recorded()
        for cause in self.failures():
            cause.unlink()

    # ---- a checkpoint

    def saved(self) -> None:
        self.settle(self._step.number, prompts_in_queue())

    def restored(self) -> None:
        """Sample again the checkpoint's complete groups whose files are missing."""
        if lost := self.restore(self._step.number, prompts_in_queue()):
            print(f"turngrid: rl/groups lacks {', '.join(lost)}; these groups are played again", flush=True)
            tags = [{"is_prompt": True, "status": "pending", "global_steps": self._step.number} for _ in lost]
            tq.kv_batch_put(keys=lost, partition_id=PARTITION, tags=tags)

    def settle(self, step: int, waiting: Iterable[str]) -> None:
        """Keep only the files of the groups in ``waiting``: ``step`` has a complete checkpoint.

        Files of groups in a step's record are deleted; others were too old and go to ``rl/stale``.
        """
        known = set(waiting)
        files = [file for file in self._rl.groups.glob("*.jsonl") if file.stem not in known]
        first = min((step_of(file.stem) for file in files), default=step + 1)
        records = [self._rl.step_episodes(number) for number in range(first, step + 1)]
        trained = {episode.group for record in records if record.exists() for episode in read_episodes(record)}
        for file in files:
            if file.stem in trained:
                file.unlink()
            else:
                _move(file, self._rl.stale / f"{step:06d}")

    def restore(self, step: int, groups: Mapping[str, str]) -> list[str]:
        """Go back to the checkpoint of ``step``, which holds these groups with their status.

        It can be repeated after a kill.

        Returns:
            The complete groups of the checkpoint whose files are missing.
        """
        ready = [group for group, status in groups.items() if status == READY]
        files = [file for file in sorted(self._rl.groups.glob("*.jsonl")) if file.stem not in ready]
        self._discard([file for file in files if file.stem in groups or step_of(file.stem) > step])
        self.settle(step, ready)
        self._take_back([self.file(group) for group in ready if self.file(group).exists()])
        return [group for group in ready if not self.file(group).exists()]

    def _discard(self, files: Sequence[Path]) -> None:
        """Move files to a new attempt; delete those that are in a discarded step's record."""
        wanted = {line for file in files for line in _lines(file)}
        records = self._rl.discarded.glob("*/episodes/*.jsonl")
        recorded = {line for record in records for line in _lines(record) if line in wanted}
        attempt = self._rl.new_attempt()
        for file in [*files, *self.failures()]:
            if recorded.issuperset(_lines(file)):
                file.unlink()
            else:
                _move(file, attempt / "episodes" / "groups")

    def _take_back(self, files: Sequence[Path]) -> None:
        """Remove groups that wait again from the records of discarded steps, and their credit."""
        waiting = {line for file in files for line in _lines(file)}
        for record in self._rl.discarded.glob("*/episodes/*.jsonl"):
            kept = [number for number, line in enumerate(_lines(record)) if line not in waiting]
            credit = record.parents[1] / "credit" / record.name
            for path in filter(Path.exists, (credit, record)):
                lines = path.read_bytes().splitlines(keepends=True)
                if len(kept) < len(lines):
                    write_whole(path, b"".join(lines[number] for number in kept))


def prompts_in_queue() -> dict[str, str]:
    """Return id -> status of every prompt that was dispatched and not yet trained on."""
    tags = (tq.kv_list(PARTITION) or {}).get(PARTITION, {})
    return {key: tag["status"] for key, tag in tags.items() if tag.get("is_prompt")}


def staleness_metrics(episodes: Sequence[Episode], step: int) -> dict[str, float]:
    """Return mean and maximum staleness of the weights that sampled a step's episodes.

    ``rollout/staleness/*``: updates between an episode's oldest turn and the step, 0 if on-policy.
    ``rollout/versions/*``: number of weight versions that sampled one episode.
    """
    spans = [episode.versions() for episode in episodes]
    numbers = {
        "rollout/staleness": [step - 1 - oldest for oldest, _ in spans],
        "rollout/versions": [newest - oldest + 1 for oldest, newest in spans],
    }
    means = {f"{name}/mean": sum(counts) / len(counts) for name, counts in numbers.items() if counts}
    return means | {f"{name}/max": float(max(counts)) for name, counts in numbers.items() if counts}


def step_of(group: str) -> int:
    """Return the step in which a prompt was dispatched, from its id ``<step>-<number>``."""
    return int(group.partition("-")[0])


def _lines(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines()


def _move(file: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.move(file, folder / file.name)
