"""A compiled TextWorld game with TextWorld's own layers, which know its legal and its expert commands."""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any

import textworld

from envs.textworld.story import accepted, next_story
from envs.types import TaskRef


class Tracked:
    """One game after another. The interpreter is kept from game to game: a new one each time would leak."""

    def __init__(self, legal: bool, expert: bool) -> None:
        self._infos = textworld.EnvInfos(
            feedback=True,
            inventory=True,
            score=True,
            won=True,
            lost=True,
            admissible_commands=legal,
            policy_commands=expert,
        )
        self._game: Any = None
        self._loaded = ""

    def reset(self, task: TaskRef, seed: int) -> Any:
        """What TextWorld tells of the game's start. Raises: EnvError, as ``accepted``."""
        if self._loaded != task.sha256:
            self._loaded = ""
            self._load(accepted(task))
            self._loaded = task.sha256
        self._game.unwrapped.seed(seed)
        return self._game.reset()

    def _load(self, path: str) -> None:
        if self._game is None:
            self._game = textworld.start(path, self._infos)
            interpreter = self._game.unwrapped._jericho
            interpreter.load = partial(next_story, weakref.proxy(interpreter))  # no cycle: its end frees its memory
        else:
            self._game.load(path)

    def step(self, command: str) -> Any:
        """What it tells after a command."""
        return self._game.step(command)[0]

    def close(self) -> None:
        if self._game is not None:
            self._game.close()
        self._game, self._loaded = None, ""
