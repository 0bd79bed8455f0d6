"""Run a compiled TextWorld game: in the interpreter alone, or with TextWorld's layers above it.

TextWorld's layers know the legal and the expert commands. They cannot save a state, take 10 % more
time a step, and take a second to import.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turngrid.envs.text_env import accepted_file
from turngrid.envs.types import TaskRef

_ASKED = ("inventory", "score")  # printed by the game after each command; moves come with the score
_EXTRA = re.compile(r"<(inventory|score|moves)>\n(.*?)</\1>", re.DOTALL)


def game_sha256(game_file: Path) -> str:
    """Return sha256 over the story file and the data beside it."""
    digest = hashlib.sha256(game_file.read_bytes())
    digest.update(game_file.with_suffix(".json").read_bytes())
    return digest.hexdigest()


def accepted(task: TaskRef) -> str:
    """Return the path of a task's story file. Raises: EnvError: missing or not the accepted one."""
    return str(accepted_file(task, game_sha256))


@dataclass(frozen=True)
class Printed:
    """What a command printed; ``inventory`` and ``score`` are None if the game printed none."""

    feedback: str
    inventory: str | None = None
    score: int | None = None
    admissible_commands: tuple[str, ...] = ()
    policy_commands: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> Printed:
        extra = {name: words.strip() for name, words in _EXTRA.findall(text)}
        score = extra.get("score")
        return cls(_EXTRA.sub("", text), extra.get("inventory"), None if score is None else int(score.split()[0]))

    @property
    def won(self) -> bool:
        return "*** The End ***" in self.feedback

    @property
    def lost(self) -> bool:
        return "*** You lost! ***" in self.feedback


class Interpreter:
    """The interpreter alone, with one game after another. ``state`` may be read and restored."""

    def __init__(self) -> None:
        import jericho

        self._jericho = jericho
        self._game: Any = None
        self._loaded = ""

    def reset(self, task: TaskRef, seed: int) -> Printed:
        """Start a game. Raises: EnvError: as ``accepted``."""
        if self._game is None or self._loaded != task.sha256:
            # a new interpreter a game: ``load`` of an old one keeps every story file (0.4 MB each)
            self._loaded, path = "", accepted(task)
            with warnings.catch_warnings(action="ignore", category=self._jericho.UnsupportedGameWarning):
                self._game = self._jericho.FrotzEnv(path)
            self._loaded = task.sha256
        self._game.seed(seed)
        opening, _ = self._game.reset()
        extra = [Printed.of(self._game.step(f"tw-extra-infos {name}")[0]) for name in _ASKED]
        return Printed(opening, extra[0].inventory)

    def step(self, command: str) -> Printed:
        return Printed.of(self._game.step(command)[0])

    @property
    def state(self) -> Any:
        return self._game.get_state()

    @state.setter
    def state(self, saved: Any) -> None:
        self._game.set_state(saved)

    def close(self) -> None:
        self._game, self._loaded = None, ""


class Tracked:
    """The game in TextWorld's layers, with the legal or the expert commands of each state."""

    def __init__(self, legal: bool, expert: bool) -> None:
        import textworld

        self._start = textworld.start
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
        """Start a game; return TextWorld's state. Raises: EnvError: as ``accepted``."""
        if self._loaded != task.sha256:
            self.close()
            self._game = self._start(accepted(task), self._infos)
            self._loaded = task.sha256
        self._game.unwrapped.seed(seed)
        return self._game.reset()

    def step(self, command: str) -> Any:
        """Return TextWorld's state after a command."""
        return self._game.step(command)[0]

    def close(self) -> None:
        if self._game is not None:
            self._game.close()
        self._game, self._loaded = None, ""
