"""Games on disk: a folder per environment, version, parameters, seed; published atomically."""

import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from turngrid.envs.environment import Environment, GameRecord, Params
from turngrid.envs.types import TaskError
from turngrid.envs.utils.files import remove_folder

_ENTRY = "entry.json"
_ABANDONED_AFTER_S = 3600.0


def cache_root() -> Path:
    """Return ``TURNGRID_CACHE``, or ``~/.cache/turngrid``."""
    return Path(os.environ.get("TURNGRID_CACHE") or Path.home() / ".cache" / "turngrid").expanduser().absolute()


def kept_folder(kind: str, name: str, write: Callable[[Path], None]) -> Path:
    """Return the folder ``kind/name`` of the cache; ``write`` fills it if it is not there yet.

    Raises:
        TaskError: the folder cannot be written.
    """
    folder = cache_root() / kind / name
    if folder.is_dir():
        return folder
    draft = folder.with_name(f".{name}")
    try:
        draft.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{draft}.lock"):
            if not folder.is_dir():
                shutil.rmtree(draft, ignore_errors=True)
                draft.mkdir()
                write(draft)
                draft.rename(folder)
    except OSError as error:
        problem = f"{kind} cannot be kept in {folder.parent} ({error.strerror or error})"
        raise TaskError(f"{problem}; use TURNGRID_CACHE=FOLDER") from error
    return folder


@dataclass(frozen=True)
class Made:
    """A game in the cache."""

    record: GameRecord
    file: Path


class GameCache:
    """A cache that processes may share. A kill at any moment leaves a whole entry or none."""

    def __init__(self, root: Path, environment: Environment) -> None:
        self._environment = environment
        self._games = root.absolute() / "games" / environment.name
        self._building = root.absolute() / "building"

    def get(self, params: Params, seed: int) -> Made | str | None:
        """Return a seed's game, or the reason why there is none; None if it was not made yet.

        The game file is not read. ``TextEnv`` refuses one that changed, and names it. An entry that
        a crash of the machine cut short is removed.
        """
        entry = self._folder(params, seed) / _ENTRY
        if not entry.is_file():
            return None
        try:
            data = json.loads(entry.read_text())
        except ValueError:
            remove_folder(entry.parent)
            return None
        if "rejected" in data:
            return str(data["rejected"])
        known = data["record"]
        record = GameRecord(**{**known, "expert_plan": tuple(known["expert_plan"])})
        return Made(record, entry.with_name(record.file or _ENTRY))

    def publish(self, draft: Path, params: Params, seed: int, outcome: dict[str, Any]) -> None:
        """Move the folder ``draft`` to its address; if another process was first, keep its copy."""
        folder = self._folder(params, seed)
        about = {"environment": self._environment.name, "version": self._environment.version, "seed": seed}
        (draft / _ENTRY).write_text(json.dumps({**outcome, **about, "params": dict(params)}))
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            draft.rename(folder)
        except OSError:
            if not (folder / _ENTRY).is_file():
                raise

    @contextmanager
    def building(self) -> Iterator[Path]:
        """Yield a new folder on the cache's file system, which is removed afterwards.

        Raises:
            TaskError: the folder cannot be made.
        """
        folder = self._building / uuid.uuid4().hex
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            problem = f"games cannot be kept in {self._building.parent} ({error.strerror})"
            raise TaskError(f"{problem}; use env.cache_dir=FOLDER or TURNGRID_CACHE=FOLDER") from error
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def sweep(self) -> None:
        """Remove unfinished folders of killed processes."""
        for folder in self._building.glob("*"):
            with suppress(FileNotFoundError):
                if time.time() - folder.stat().st_mtime > _ABANDONED_AFTER_S:
                    shutil.rmtree(folder, ignore_errors=True)

    def _folder(self, params: Params, seed: int) -> Path:
        key = self._environment.game_address(params, seed)[:32]
        return self._games / key[:2] / key
