"""A base for environments whose tasks are the rows of a data set."""

import abc
import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turngrid.envs.environment import Environment, GameRecord, Params, Rejected
from turngrid.envs.types import TaskError

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+(:\w+)?")
_SEED_BITS = 48
Fields = dict[str, Any]
Reader = Callable[[Mapping[str, Any]], Fields]


@dataclass(frozen=True)
class DataSetSettings:
    """Keys of ``env``: a file (.jsonl, .json) or a data set of the Hugging Face hub, and splits.

    Attributes:
        instances: a path, or ``owner/name`` or ``owner/name:split``.
        test_instances: a second source, whose rows are the test split.
        test_share, validation_share: shares of ``instances``, if it contains these splits too.
    """

    instances: str
    test_instances: str = ""
    test_share: float = field(default=0.2, metadata={"range": (0, 1)})
    validation_share: float = field(default=0.0, metadata={"range": (0, 1)})


@dataclass(frozen=True)
class Row:
    """One row of a data set.

    Attributes:
        seed: hash of the row's fields, so that a row is one game in any file.
        rank: ``rank_of`` the row's id, which decides its split.
        fields: None if the row is no task.
        problem: why the row is no task.
    """

    seed: int
    rank: float
    fields: Fields | None
    problem: str = ""


class DataSetEnvironment(Environment):
    """An environment whose games are rows; ``Settings`` derives from ``DataSetSettings``.

    A subclass implements ``parse_task``, ``env`` and ``read_row``, and may override ``fits`` and
    ``row_game``. Rows that are no tasks are rejected individually, with their reasons.
    """

    row_id: str = "id"  # the field that names a row

    @staticmethod
    @abc.abstractmethod
    def read_row(row: Mapping[str, Any]) -> Fields:
        """Return the fields of a row that make its task, as JSON values.

        Raises:
            ValueError: the row is no task; the message says why.
            KeyError: the row lacks a field.
        """

    def fits(self, fields: Fields, params: Params) -> bool:
        """Return whether a row belongs to the task of ``params``."""
        return True

    def row_game(self, fields: Fields, params: Params, folder: Path) -> GameRecord:
        """Make a row's game. By default it is the row, which ``accepted_json`` returns to the env.

        Raises:
            Rejected: the row makes no game.
        """
        return GameRecord.written(folder, fields, sort_keys=True)

    def check_sources(self) -> None:
        """Raise TaskError if a source cannot exist, or the shares exceed 1."""
        settings = self.settings
        for key in ("instances", "test_instances"):
            if source := getattr(settings, key):
                _check_source(f"env.{key}", source)
        if settings.test_share + settings.validation_share > 1:
            raise TaskError("env.test_share and env.validation_share are shares of the rows, together at most 1")

    def seeds(self, params: Params, split: str) -> Sequence[int]:
        """Return the seeds of a split's rows; training and demonstrations have the same rows.

        Raises:
            TaskError: the split has no such row.
        """
        of_split = self._rows(split)
        chosen = [row for row in of_split if row.fields is None or self.fits(row.fields, params)]
        if not any(row.fields for row in chosen):
            raise TaskError(self.no_rows(params, split, of_split))
        return [row.seed for row in chosen]

    def no_rows(self, params: Params, split: str, of_split: Sequence[Row]) -> str:
        """Return the message for a split without a row of the task."""
        return f"env.instances={self.settings.instances}: split {split} has no such row among {len(of_split)}"

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        sources = filter(None, [self.settings.instances, self.settings.test_instances])
        row = next((row for source in sources for row in self._read(source) if row.seed == seed), None)
        if row is None:
            raise Rejected("the row is no longer in the data set")
        if row.fields is None:
            raise Rejected(row.problem)
        return self.row_game(row.fields, params, folder)

    def _rows(self, split: str) -> list[Row]:
        settings, is_test = self.settings, split == "test"
        if settings.test_instances:
            return list(self._read(settings.test_instances if is_test else settings.instances))
        held_out = settings.test_share + settings.validation_share
        low, high = (0.0, settings.test_share) if is_test else (held_out, 1.0)
        if split == "validation":
            low, high = settings.test_share, held_out
        return [row for row in self._read(settings.instances) if low <= row.rank < high]

    def _read(self, source: str) -> tuple[Row, ...]:
        return rows(source, self.read_row, self.row_id)


def rows(source: str, read: Reader, row_id: str = "id", key: str = "env.instances") -> tuple[Row, ...]:
    """Return the rows of ``source``, sorted by a hash of their ids, whatever the file's order.

    Args:
        row_id: the field that names a row.
        key: the key that names the source, for messages.

    Raises:
        TaskError: the source is not available, or none of its rows is a task.
    """
    path = Path(source).expanduser()
    if path.is_file():
        result = _parsed(path.absolute(), path.stat().st_mtime_ns, read, row_id)
    else:
        _check_source(key, source)
        result = _parsed(source, 0, read, row_id)
    if not any(row.fields for row in result):
        why = f"; the first: {result[0].problem}" if result else ""
        raise TaskError(f"{key}={source!r}: none of its {len(result)} rows is a usable instance{why}")
    return result


def _check_source(key: str, source: str) -> None:
    path = Path(source).expanduser()
    if not path.is_file() and (path.suffix in (".jsonl", ".json") or not _HUB_NAME.fullmatch(source)):
        raise TaskError(f"{key}={source!r}: no such file (give a .jsonl file or a data set as owner/name)")


@functools.lru_cache(maxsize=4)
def _parsed(source: Path | str, changed_ns: int, read: Reader, row_id: str) -> tuple[Row, ...]:
    raw = _of_file(source) if isinstance(source, Path) else _of_hub(source)
    parsed = (_row(row, read, row_id) for row in raw)
    return tuple(sorted(parsed, key=lambda row: (row.rank, row.seed)))


def _of_file(path: Path) -> Iterable[Any]:
    if path.suffix == ".parquet":
        return _parquet(path)
    text = path.read_text(errors="replace")
    if path.suffix == ".json":
        try:
            return json.loads(text)
        except ValueError as error:
            raise TaskError(f"{str(path)!r} is not JSON: {error}") from error
    return [line for line in text.split("\n") if line.strip()]


def _parquet(path: Path) -> list[Any]:
    try:
        from pyarrow.parquet import read_table

        return read_table(path).to_pylist()
    except (ImportError, OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
        raise TaskError(f"{str(path)!r} cannot be read as parquet: {str(error)[:200]}") from error


def _of_hub(source: str) -> Iterable[Any]:
    name, _, split = source.partition(":")
    try:
        from datasets import load_dataset

        return [dict(row) for row in load_dataset(name, split=split or "train")]
    except ImportError as error:
        raise TaskError(f"env.instances={source} needs the package datasets") from error
    except Exception as error:  # the hub raises exceptions of many types
        first = (str(error).strip().splitlines() or [""])[0]
        raise TaskError(
            f"env.instances={source}: the data set cannot be loaded ({first[:200]}); a local .jsonl works offline"
        ) from error


def _row(raw: Any, read: Reader, row_id: str) -> Row:
    try:
        row = json.loads(raw) if isinstance(raw, str) else raw
        if not isinstance(row, Mapping):
            raise ValueError("a row is no table of fields")  # noqa: TRY004 - the data is wrong, not the code
        fields = read(row)
    except json.JSONDecodeError as error:
        problem = f"a row is not JSON: {error}"
    except KeyError as error:
        problem = f"a row has no field {error}"
    except ValueError as error:
        problem = str(error)
    else:
        content = json.dumps(fields, sort_keys=True)
        return Row(_hash(content), rank_of(str(row.get(row_id, content))), fields)
    return Row(_hash(str(raw)), rank_of(str(raw)), None, problem)


def rank_of(name: str) -> float:
    """Return a number in [0, 1) by a hash of a name."""
    return _hash(name) / (1 << _SEED_BITS)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode(errors="replace")).digest()[: _SEED_BITS // 8], "big")
