"""Instance files: JSON Lines as SWE-Gym and SWE-bench publish them, or a data set of the Hugging Face hub."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.repair.instance import Instance, InstanceError
from envs.types import TaskError

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+(:\w+)?")
_SEED_BITS = 48


@dataclass(frozen=True)
class Row:
    """One row of an instance file: an instance, or the reason why it is none (``problem``).

    ``seed`` is a hash of the row's content, so that a row has one game whatever file it stands in; ``place`` in [0, 1)
    is a hash of the instance's name, from which its split follows.
    """

    seed: int
    place: float
    instance: Instance | None
    problem: str = ""


def rows(source: str) -> tuple[Row, ...]:
    """The rows of ``source``, in the order of a hash of their names: it does not depend on the file's order.

    ``source`` is a path (.jsonl or .json) or ``owner/name`` (or ``owner/name:split``) of a data set on the hub, which
    is loaded with the package ``datasets``.

    Raises:
        TaskError: there is no such file, it has no rows, or none of them is an instance.
    """
    path = Path(source).expanduser()
    if path.is_file():
        return _checked(source, _of_file(path.absolute(), path.stat().st_mtime_ns))
    refuse_source("env.instances", source)
    return _checked(source, _of_hub(source))


def refuse_source(key: str, source: str) -> None:
    """Raises: TaskError: ``source`` is no file, and no name that the hub could have."""
    path = Path(source).expanduser()
    if not path.is_file() and (path.suffix in (".jsonl", ".json") or not _HUB_NAME.fullmatch(source)):
        raise TaskError(f"{key}={source!r}: no such file (give a .jsonl file or a data set as owner/name)")


def _checked(source: str, found: tuple[Row, ...]) -> tuple[Row, ...]:
    if not any(row.instance for row in found):
        why = f"; the first: {found[0].problem}" if found else ""
        raise TaskError(f"env.instances={source!r}: none of its {len(found)} rows is a usable instance{why}")
    return found


@functools.lru_cache(maxsize=4)
def _of_file(path: Path, changed_ns: int) -> tuple[Row, ...]:
    text = path.read_text(errors="replace")
    if path.suffix == ".json":
        try:
            return _sorted(json.loads(text))
        except ValueError as error:
            raise TaskError(f"env.instances={str(path)!r} is not JSON: {error}") from error
    return _sorted(line for line in text.split("\n") if line.strip())


@functools.lru_cache(maxsize=4)
def _of_hub(source: str) -> tuple[Row, ...]:
    name, _, split = source.partition(":")
    try:
        from datasets import load_dataset

        return _sorted(dict(row) for row in load_dataset(name, split=split or "train"))
    except ImportError as error:
        raise TaskError(f"env.instances={source} needs the package datasets") from error
    except Exception as error:  # the hub fails in many ways, all of which mean: not to be had
        first = (str(error).strip().splitlines() or [""])[0]
        raise TaskError(
            f"env.instances={source}: the data set cannot be loaded ({first[:200]}); a local .jsonl works offline"
        ) from error


def _sorted(raw: Iterable[Any]) -> tuple[Row, ...]:
    return tuple(sorted(map(_row, raw), key=lambda row: (row.place, row.seed)))


def _row(raw: Any) -> Row:
    try:
        row = json.loads(raw) if isinstance(raw, str) else raw
        if not isinstance(row, Mapping):
            raise InstanceError("a row is no table of fields")
        instance = Instance.from_dict(row)
    except ValueError as error:
        problem = str(error) if isinstance(error, InstanceError) else f"a row is not JSON: {error}"
        digest = _hash(str(raw))
        return Row(digest, digest / (1 << _SEED_BITS), None, problem)
    content = json.dumps(instance.to_dict(), sort_keys=True)
    return Row(_hash(content), _hash(instance.instance_id) / (1 << _SEED_BITS), instance)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode(errors="replace")).digest()[: _SEED_BITS // 8], "big")
