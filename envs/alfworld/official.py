"""The official games: ``json_2.1.*/{train,valid_seen,valid_unseen}/TYPE-Thing-None-Place-N/trial_*/game.tw-pddl``.

Two kinds of files are about. Those of alfworld 0.4 (json_2.1.2) are taken as they are. Older ones (json_2.1.1) command
``put X in/on Y``, know no ``help`` and arrive at nameless places; they get the domain and the grammar that the
installed alfworld ships, and keep their task's words.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.alfworld import wheel
from envs.alfworld.kinds import TYPES
from envs.environment import Rejected
from envs.types import TaskError

FILE = "game.tw-pddl"
FOLDERS = ("train", "valid_seen", "valid_unseen")
_SKIPPED = ("movable", "Sliced")  # alfworld plays neither movable receptacles nor sliced things
_TASK = re.compile(r'"rhs": "Your task is to: ((?:[^"\\]|\\.)*?)\.?"')
_OLD_PUT = re.compile(r"put (.+) in/on (.+)")
_MODERN_PUT = '"move {o} to {r}"'


@dataclass(frozen=True)
class Games:
    """The games of one folder in the order of their paths; a game's seed is its place, from 1.

    ``listing`` hashes the paths, so that a folder with other games is another environment to the cache.
    """

    root: Path
    paths: tuple[str, ...]

    @property
    def listing(self) -> str:
        return hashlib.sha256("\n".join(self.paths).encode()).hexdigest()

    def file(self, seed: int) -> Path:
        return self.root / self.paths[seed - 1]

    def seeds(self, types: Sequence[str], order: str) -> list[int]:
        """The games of these types: in the order of their paths (``sorted``), or the types in turn, each shuffled by
        the hash of its paths (``mixed``), so that the first hundred are a fair sample."""
        places = [place for place, path in enumerate(self.paths, 1) if type_of(Path(path)) in types]
        return places if order == "sorted" else self._mixed(places, types)

    def _mixed(self, places: list[int], types: Sequence[str]) -> list[int]:
        places = sorted(places, key=lambda place: hashlib.sha256(self.paths[place - 1].encode()).digest())
        turns = {kind: 0 for kind in types}
        keyed = []
        for place in places:
            kind = type_of(Path(self.paths[place - 1]))
            keyed.append((turns[kind], types.index(kind), place))
            turns[kind] += 1
        return [place for _, _, place in sorted(keyed)]


def folder(data_dir: str) -> Path | None:
    """Where the official data is: ``env.data_dir``, else ``$ALFWORLD_DATA``; None where neither is said.

    alfworld sets the variable to a folder of its own when it is imported; empty, that one is as good as unset.

    Raises:
        TaskError: the folder that was named holds no data.
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
    """The games in one of the data's folders.

    Raises:
        TaskError: there are none.
    """
    found = sorted(file.relative_to(root).as_posix() for file in (root / name).glob(f"**/{FILE}"))
    kept = [path for path in found if not any(word in path for word in _SKIPPED) and type_of(Path(path))]
    if not kept:
        raise TaskError(f"env.data_dir: no {name}/TYPE-*/trial_*/{FILE} in {root}")
    return Games(root, tuple(kept))


def type_of(file: Path) -> str:
    """The task type in a game's path; "" where it is none of the six."""
    heads = (part.split("-", 1)[0] for part in file.parts)
    return next((head for head in heads if head in TYPES), "")


def modern(data: Mapping[str, Any]) -> dict[str, Any]:
    """A file's content with today's commands.

    Raises:
        Rejected: an old file whose task's words cannot be found.
    """
    if _MODERN_PUT in data["grammar"]:
        return dict(data)
    told = _TASK.search(data["grammar"])
    if told is None:
        raise Rejected("its grammar does not tell the task")
    grammar, plan = wheel.grammar().replace("UNKNOWN GOAL", told.group(1)), data.get("walkthrough")
    if isinstance(plan, list):  # most old files have none
        plan = [_OLD_PUT.sub(r"move \1 to \2", str(command)) for command in plan]
    return {**data, "pddl_domain": wheel.domain(), "grammar": grammar, "walkthrough": plan}
