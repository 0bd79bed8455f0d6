"""A PDDL problem in the planner's own form, translated once: by whoever makes the game, and kept beside it.

A translation takes 0.1-0.2 s of Python, more than playing the whole episode.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import sys
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import fast_downward

from envs.alfworld.text import Arguments

FILE = "translated.json.z"
_PLANNER = metadata.version("fast-downward-textworld")


@dataclass(frozen=True)
class Translated:
    """A problem without pruning (``sas``, compressed), the facts that hold at first, the things' types, and the names
    of each action's parameters."""

    sas: bytes
    facts: tuple[tuple[str, Arguments], ...]
    types: dict[str, str]
    parameters: dict[str, tuple[str, ...]]


@functools.lru_cache(maxsize=64)  # games in memory, about 130 kB each with their PDDL
def translated(domain: str, problem: str, folder: Path | None) -> Translated:
    """From ``folder`` where it was saved, or made now.

    Raises:
        Exception: whatever the planner's translator raises on PDDL that it cannot read.
    """
    return _saved(folder, _key(domain, problem)) or _translate(domain, problem)


def save(domain: str, problem: str, folder: Path) -> None:
    """Keep the translation in ``folder`` for other processes."""
    found = translated(domain, problem, None)
    content = {**asdict(found), "sas": zlib.decompress(found.sas).decode(), "key": _key(domain, problem)}
    (folder / FILE).write_bytes(zlib.compress(json.dumps(content).encode()))


def _saved(folder: Path | None, key: str) -> Translated | None:
    """Nothing where there is no file, or one of another game, another planner, or half a one."""
    try:
        content = json.loads(zlib.decompress((folder / FILE).read_bytes())) if folder else {}
    except (OSError, ValueError, zlib.error):
        return None
    if content.get("key") != key:
        return None
    return Translated(
        sas=zlib.compress(content["sas"].encode(), 1),
        facts=tuple((predicate, tuple(arguments)) for predicate, arguments in content["facts"]),
        types=content["types"],
        parameters={name: tuple(parameters) for name, parameters in content["parameters"].items()},
    )


def _key(domain: str, problem: str) -> str:
    return hashlib.sha256(f"{_PLANNER}\n{domain}\n{problem}".encode()).hexdigest()


def _translate(domain: str, problem: str) -> Translated:
    with argv_kept():
        task, sas = fast_downward.pddl2sas(domain, problem)
    atoms = [atom for atom in task.init if hasattr(atom, "predicate") and atom.predicate != "="]
    return Translated(
        sas=zlib.compress(sas.encode(), 1),
        facts=tuple((atom.predicate, tuple(atom.args)) for atom in atoms),
        types={thing.name: thing.type_name for thing in task.objects},
        parameters={a.name: tuple(p.name.strip("?") for p in a.parameters) for a in task.actions},
    )


@contextlib.contextmanager
def argv_kept() -> Iterator[None]:
    """The translator takes the program's arguments for its own, and replaces them; it may also exit."""
    kept = sys.argv
    try:
        yield
    except SystemExit as error:
        raise ValueError(f"the planner's translator gave up ({error.code})") from error
    finally:
        sys.argv = kept
