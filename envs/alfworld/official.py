"""Find the official games: ``json_2.1.*/FOLDER/TYPE-Thing-None-Place-N/trial_*/game.tw-pddl``.

Files of alfworld 0.4 (json_2.1.2) are used unchanged. Older ones (json_2.1.1) have the command
``put X in/on Y``, no ``help`` and nameless places; they get the domain and grammar of the installed
alfworld, and keep their task's words.
"""

import functools
import hashlib
import itertools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turngrid.envs.alfworld import wheel
from turngrid.envs.alfworld.kinds import TYPES
from turngrid.envs.environment import Rejected
from turngrid.envs.types import TaskError

FILE = "game.tw-pddl"
FOLDERS = ("train", "valid_seen", "valid_unseen")
_SKIPPED = ("movable", "Sliced")  # alfworld skips movable receptacles and sliced things
_TASK = re.compile(r'"rhs": "Your task is to: ((?:[^"\\]|\\.)*?)\.?"')
_OLD_PUT = re.compile(r"put (.+) in/on (.+)")
_MODERN_PUT = '"move {o} to {r}"'


@dataclass(frozen=True)
class Games:
    """The games of one folder, sorted by path; a game's seed is its index, from 1."""

    root: Path
    paths: tuple[str, ...]

    @functools.cached_property
    def listing(self) -> str:
        """Hash of the paths and sizes, part of the cache key: a repaired file is another one."""
        sized = (f"{path} {(self.root / path).lstat().st_size}" for path in self.paths)
        return hashlib.sha256("\n".join(sized).encode()).hexdigest()

    def file(self, seed: int) -> Path:
        return self.root / self.paths[seed - 1]

    def seeds(self, types: Sequence[str]) -> list[int]:
        """Return the seeds of the games of these types.

        The types alternate, each shuffled by a hash of its paths, so that the first hundred games
        are a fair sample.
        """
        by_hash = sorted(enumerate(self.paths, 1), key=lambda item: hashlib.sha256(item[1].encode()).digest())
        of_type = ([seed for seed, path in by_hash if type_of(Path(path)) == kind] for kind in types)
        return [seed for turn in itertools.zip_longest(*of_type) for seed in turn if seed is not None]


def folder(data_dir: str) -> Path | None:
    """Return the newest ``json_2.1.*`` in ``env.data_dir``, else in ``$ALFWORLD_DATA``, else None.

    alfworld sets the variable to ``~/.cache/alfworld`` at import; if that has no data: None.

    Raises:
        TaskError: the named folder holds no data.
    """
    named = data_dir or os.environ.get("ALFWORLD_DATA", "")
    if not named:
        return None
    root = Path(named).expanduser().absolute()
    versions = sorted(root.glob("json_2.1.*")) or ([root] if root.name.startswith("json_2.1.") else [])
    with_games = [version for version in versions if any((version / name).is_dir() for name in FOLDERS)]
    if with_games:
        return with_games[-1]
    if not data_dir and root == Path.home() / ".cache" / "alfworld":
        return None
    key = "env.data_dir" if data_dir else "ALFWORLD_DATA"
    raise TaskError(f"{key}={named}: no folder json_2.1.*/{FOLDERS[0]} in it (alfworld-download makes one)")


def games(root: Path, name: str) -> Games:
    """Return the games in one of the data's folders.

    Raises:
        TaskError: the folder has no games.
    """
    paths = sorted(file.relative_to(root).as_posix() for file in (root / name).glob(f"**/{FILE}"))
    kept = [path for path in paths if not any(word in path for word in _SKIPPED) and type_of(Path(path))]
    if not kept:
        raise TaskError(f"env.data_dir: no {name}/TYPE-*/trial_*/{FILE} in {root}")
    return Games(root, tuple(kept))


def type_of(file: Path) -> str:
    """Return the task type in a game's path, or ""."""
    heads = (part.split("-", 1)[0] for part in file.parts)
    return next((head for head in heads if head in TYPES), "")


def modern(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file's content with the commands of the installed alfworld.

    Raises:
        Rejected: an old file's grammar has no task.
    """
    if _MODERN_PUT in data["grammar"]:
        return dict(data)
    task = _TASK.search(data["grammar"])
    if task is None:
        raise Rejected("its grammar has no task")
    grammar, plan = wheel.grammar().replace("UNKNOWN GOAL", task.group(1)), data.get("walkthrough")
    if isinstance(plan, list):  # most old files have none
        plan = [_OLD_PUT.sub(r"move \1 to \2", str(command)) for command in plan]
    return {**data, "pddl_domain": wheel.domain(), "grammar": grammar, "walkthrough": plan}
