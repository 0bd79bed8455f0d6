"""Run a compiled TextWorld game: in the interpreter alone, or with TextWorld's layers above it.

TextWorld's layers know the legal and the expert commands. They cannot save a state, take 10 % more
time a step, and take a second to import.
"""

import hashlib
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from weakref import WeakValueDictionary

from turngrid.envs.text_env import accepted_file
from turngrid.envs.types import TaskRef

_ASKED = ("inventory", "score")  # printed by the game after each command; moves come with the score
_EXTRA = re.compile(r"<(inventory|score|moves)>\n(.*?)</\1>", re.DOTALL)


def game_sha256(game_file: Path) -> str:
    """Return sha256 over the story file and the data beside it."""
    digest = hashlib.sha256(game_file.read_bytes())
    digest.update(game_file.with_suffix(".json").read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Printed:
    """Output of a command; ``inventory`` and ``score`` are None if the game printed none."""

    feedback: str
    inventory: str | None = None
    score: int | None = None
    admissible_commands: tuple[str, ...] = ()
    policy_commands: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> Self:
        extra = {name: words.strip() for name, words in _EXTRA.findall(text)}
        score = extra.get("score")
        return cls(_EXTRA.sub("", text), extra.get("inventory"), None if score is None else int(score.split()[0]))

    @property
    def won(self) -> bool:
        return "*** The End ***" in self.feedback

    @property
    def lost(self) -> bool:
        return "*** You lost! ***" in self.feedback


class State:
    """A state of a game, which lasts as long as an episode is in it.

    Attributes:
        saved: the interpreter's state.
        printed: what the command that led here printed.
        after: the states that commands led to from here.
    """

    def __init__(self, saved: Any, printed: Printed) -> None:
        self.saved, self.printed = saved, printed
        self.after: WeakValueDictionary[str, State] = WeakValueDictionary()


class Game:
    """The interpreter of all episodes of a game in this process: to load one takes 10 ms of CPU.

    A command runs once for all episodes in the same state, such as the samples of a group.
    """

    def __init__(self, path: Path) -> None:
        import jericho

        with warnings.catch_warnings(action="ignore", category=jericho.UnsupportedGameWarning):
            self._frotz = jericho.FrotzEnv(str(path))
        self._openings: WeakValueDictionary[int, State] = WeakValueDictionary()
        self._state: State | None = None  # the interpreter's

    def opening(self, seed: int) -> State:
        """Reset the game with this seed and return its first state."""
        if (state := self._openings.get(seed)) is not None:
            return state
        self._state = None  # if a call below fails, the interpreter is in no known state
        self._frotz.seed(seed)
        opening, _ = self._frotz.reset()
        extra = [Printed.of(self._frotz.step(f"tw-extra-infos {name}")[0]) for name in _ASKED]
        self._openings[seed] = state = self._reached(Printed(opening, extra[0].inventory))
        return state

    def after(self, state: State, command: str) -> State:
        if (reached := state.after.get(command)) is not None:
            return reached
        if self._state is not state:
            self._frotz.set_state(state.saved)
        self._state = None
        state.after[command] = reached = self._reached(Printed.of(self._frotz.step(command)[0]))
        return reached

    def _reached(self, printed: Printed) -> State:
        self._state = State(self._frotz.get_state(), printed)
        return self._state


_GAMES: WeakValueDictionary[str, Game] = WeakValueDictionary()  # by sha256


class Interpreter:
    """An episode in the interpreter alone, of one game after another."""

    _game: Game | None = None
    _state: State

    def reset(self, task: TaskRef, seed: int) -> Printed:
        """Start a game and return its first output; raises as ``accepted_file``."""
        self._game = _GAMES.get(task.sha256) or Game(accepted_file(task, game_sha256))
        _GAMES[task.sha256] = self._game
        self._state = self._game.opening(seed)
        return self._state.printed

    def step(self, command: str) -> Printed:
        assert self._game is not None
        self._state = self._game.after(self._state, command)
        return self._state.printed

    def close(self) -> None:
        self._game = None


class Tracked:
    """The game in TextWorld's layers, with the legal or the expert commands of each state."""

    def __init__(self, legal: bool, expert: bool) -> None:
        import textworld

        self._start = textworld.start
        shown = dict.fromkeys(("feedback", "inventory", "score", "won", "lost"), True)
        self._infos = textworld.EnvInfos(**shown, admissible_commands=legal, policy_commands=expert)
        self._game: Any = None
        self._loaded = ""

    def reset(self, task: TaskRef, seed: int) -> Any:
        """Start a game and return TextWorld's state; raises as ``accepted_file``."""
        if self._loaded != task.sha256:
            self.close()
            self._game = self._start(str(accepted_file(task, game_sha256)), self._infos)
            self._loaded = task.sha256
        self._game.unwrapped.seed(seed)
        return self._game.reset()

    def step(self, command: str) -> Any:
        return self._game.step(command)[0]

    def close(self) -> None:
        if self._game is not None:
            self._game.close()
        self._game, self._loaded = None, ""
