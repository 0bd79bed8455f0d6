"""Reads Weights & Biases' offline logs: a run folder's ``wandb/offline-run-*/run-ID.wandb``.

Such a file is a LevelDB log (github.com/google/leveldb, doc/log_format.md) of protobuf records
behind a header of seven bytes: blocks of 32 KiB, each with fragments of records. A killed run
leaves a last fragment that is cut short.
"""

import json
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MAGIC, HEADER, BLOCK = b":W&B", 7, 32768
FRAGMENT = struct.Struct("<IHB")  # checksum, length, type
FULL, FIRST, LAST = 1, 2, 4


@dataclass
class WandbRun:
    """One run, from all the logs that its attempts left.

    A step that two attempts logged counts once in ``history``, as the first one logged it (so does
    W&B's server); ``ended`` is the last attempt's exit code, None where it was killed.
    """

    id: str = ""
    project: str = ""
    name: str = ""
    group: str = ""
    tags: list[str] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    axes: dict[str, str] = field(default_factory=dict)
    alerts: list[tuple[str, str]] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    ended: int | None = None

    def stage(self, name: str) -> list[dict[str, Any]]:
        """What a stage logged, each line with its own ``step``."""
        return [{**line, "step": line[f"{name}/step"]} for line in self.history if f"{name}/step" in line]


def read_runs(folder: Path) -> list[WandbRun]:
    """Every W&B run of a run folder, in the order in which they began."""
    from wandb.proto import wandb_internal_pb2  # a second to import

    runs: dict[str, WandbRun] = {}
    for path in sorted(folder.glob("wandb/offline-run-*/run-*.wandb"), key=lambda path: path.parent.name):
        run = runs.setdefault(path.stem, WandbRun())
        run.folders.append(path.parent)
        run.ended = None
        for data in _records(path.read_bytes(), path):
            record = wandb_internal_pb2.Record()  # type: ignore[attr-defined]
            record.ParseFromString(data)
            _take(run, record)
    return list(runs.values())


def _take(run: WandbRun, record: Any) -> None:
    kind = record.WhichOneof("record_type")
    if kind == "run":
        told = record.run
        run.id, run.project, run.name = told.run_id, told.project, told.display_name
        run.group, run.tags = told.run_group, list(told.tags)
        run.config |= _values(told.config.update)
        run.config.pop("_wandb", None)  # W&B's own notes
    elif kind == "config":
        run.config |= {name: value for name, value in _values(record.config.update).items() if name != "_wandb"}
    elif kind == "history":
        line = _values(record.history.item)
        if "_step" in line and (not run.history or line["_step"] > run.history[-1]["_step"]):
            run.history.append(line)
    elif kind == "metric" and record.metric.name:
        run.axes[record.metric.name] = record.metric.step_metric
    elif kind == "alert":
        run.alerts.append((record.alert.title, record.alert.text))
    elif kind == "exit":
        run.ended = record.exit.exit_code


def _values(items: Iterable[Any]) -> dict[str, Any]:
    """A mapping comes as several items under one key."""
    found: dict[str, Any] = {}
    for item in items:
        *parents, name = [item.key] if item.key else item.nested_key
        node = found
        for parent in parents:
            node = node.setdefault(parent, {})
        node[name] = json.loads(item.value_json)
    return found


def _records(data: bytes, path: Path) -> Iterator[bytes]:
    """Whole records only."""
    assert data[: len(MAGIC)] == MAGIC, f"{path} is no Weights & Biases log"
    place, record = HEADER, b""
    while True:
        left = BLOCK - place % BLOCK  # a fragment's head does not fit into a block's last bytes: they are padding
        start = place + left if left < FRAGMENT.size else place
        if start + FRAGMENT.size > len(data):
            return
        checksum, length, kind = FRAGMENT.unpack_from(data, start)
        body = data[start + FRAGMENT.size : start + FRAGMENT.size + length]
        if len(body) < length or kind == 0:  # cut short by a kill, or the padding that it left
            return
        assert zlib.crc32(bytes([kind]) + body) == checksum, f"{path} is damaged at byte {start}"
        record = body if kind in (FULL, FIRST) else record + body
        if kind in (FULL, LAST):
            yield record
        place = start + FRAGMENT.size + length
