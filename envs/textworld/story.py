"""A compiled TextWorld game in the interpreter alone, for those who ask for neither legal nor expert commands.

TextWorld's layers above the interpreter tell at every step what else is known of the game, which takes a fifth of its time, and to start
a game takes as long as four steps. Here the episodes of a process that begin alike, as the samples of a prompt do, share a game that was
started once; each is a state of the interpreter, which is put back before its next step. Where one of them has just taken the same step
from the same state, as samples of a prompt often do, it is not taken again.
"""

from __future__ import annotations

import hashlib
import re
import warnings
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from jericho import FrotzEnv, UnsupportedGameWarning

from envs.text_env import accepted_file
from envs.types import TaskRef

_ASKED = ("inventory", "score")  # what the game is to print after each command; with the score it tells the moves
_TOLD = re.compile(r"<(inventory|score|moves)>\n(.*?)</\1>", re.DOTALL)


def accepted(task: TaskRef) -> str:
    """The path of its story file. Raises: EnvError: it is missing, or not the one that was accepted."""
    return str(accepted_file(task, game_sha256))


def game_sha256(game_file: Path) -> str:
    """sha256 over the story file and the data beside it: all that playing the game reads."""
    digest = hashlib.sha256(game_file.read_bytes())
    digest.update(game_file.with_suffix(".json").read_bytes())
    return digest.hexdigest()


def next_story(interpreter: FrotzEnv, path: str) -> None:
    """What the interpreter is to start at its next ``reset``; its own ``load`` starts that at once, on top of another's memory (0.4 MiB
    leak), and keeps every story file ever read."""
    interpreter.story_file = path.encode()
    interpreter._cache = {path: (Path(path).read_bytes(), {}, None)}


def _interpreter(path: str) -> FrotzEnv:
    with warnings.catch_warnings(action="ignore", category=UnsupportedGameWarning):  # it knows famous games' objects
        return FrotzEnv(path)


@dataclass(frozen=True)
class Told:
    """What a command printed: ``inventory`` and ``score`` are None where they were not told."""

    feedback: str
    inventory: str | None = None
    score: int | None = None
    admissible_commands: tuple[str, ...] = ()
    policy_commands: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> Told:
        told = {name: words.strip() for name, words in _TOLD.findall(text)}
        score = told.get("score")
        return cls(_TOLD.sub("", text), told.get("inventory"), None if score is None else int(score.split()[0]))

    @property
    def won(self) -> bool:
        return "*** The End ***" in self.feedback

    @property
    def lost(self) -> bool:
        return "*** You lost! ***" in self.feedback


@dataclass(eq=False)
class State:
    """Of the interpreter, its random numbers among it; ``told`` is what it printed when it came there, ``after`` where commands lead
    from there, as long as an episode is in that state."""

    memory: Any
    told: Told
    after: WeakValueDictionary[str, State] = field(default_factory=WeakValueDictionary)


class Story:
    """A started game; ``start`` is the state that it is in then."""

    _open: ClassVar[WeakValueDictionary[tuple[str, int], Story]] = WeakValueDictionary()
    # Interpreters without a story: what each further one takes is never given back
    _idle: ClassVar[list[FrotzEnv]] = []

    def __init__(self, task: TaskRef, seed: int) -> None:
        self._key, path = (task.sha256, seed), accepted(task)
        self._game = self._idle.pop() if self._idle else _interpreter(path)
        weakref.finalize(self, self._idle.append, self._game).atexit = False
        next_story(self._game, path)
        self._game.seed(seed)
        self.start = self._started()

    @classmethod
    def of(cls, task: TaskRef, seed: int) -> Story:
        """Raises: EnvError, as ``accepted``."""
        story = cls._open.get((task.sha256, seed)) or cls(task, seed)
        cls._open[story._key] = story
        return story

    def _started(self) -> State:
        opening, _ = self._game.reset()
        asked = [Told.of(self._game.step(f"tw-extra-infos {name}")[0]) for name in _ASKED]
        started = State(self._game.get_state(), Told(opening, asked[0].inventory))
        self._state: State | None = started
        return started

    def step(self, state: State, command: str) -> State:
        """Where a command leads from there. Where that fails, the story's other episodes go on, and new ones get another story."""
        if known := state.after.get(command):
            return known
        try:
            return self._step(state, command)
        except BaseException:
            self._state = None  # the interpreter may be anywhere
            self._open.pop(self._key, None)
            raise

    def _step(self, state: State, command: str) -> State:
        if state is not self._state:
            self._game.set_state(state.memory)
        told = Told.of(self._game.step(command)[0])
        if self._game._emulator_halted():  # only a new start wakes it up, for the other episodes
            self._started()
            return State(state.memory, told)
        self._state = state.after[command] = after = State(self._game.get_state(), told)
        return after


class Episode:
    """One episode of a story after another."""

    def __init__(self) -> None:
        self._story: Story | None = None
        self.state: State | None = None

    def reset(self, task: TaskRef, seed: int) -> Told:
        self._story = Story.of(task, seed)
        self.state = self._story.start
        return self.state.told

    def step(self, command: str) -> Told:
        assert self._story and self.state
        self.state = self._story.step(self.state, command)
        return self.state.told

    def close(self) -> None:
        self._story = self.state = None
