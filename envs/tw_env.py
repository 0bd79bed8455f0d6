"""Playing compiled TextWorld games (.z8 with its .json beside it) through the interpreter in this process.

TextWorld shares one parser in a process and is not thread-safe: one process, one thread, any number of envs.
"""

from __future__ import annotations

import hashlib
import re
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import textworld

from envs.text_env import RawStep, TextEnv, accepted_file, sanitise
from envs.tw_text import feedback_lines, goal_text, observation_text, opening, room_and_moves
from envs.types import Observation, TaskRef

# Inform's commands to the program (leave, rewind, log, change how text is printed) and TextWorld's debugging verbs,
# some of which print the whole state.
BANNED = frozenset(
    {
        *("quit", "q", "restart", "restore", "save", "undo", "again", "g", "oops", "o"),
        *("script", "noscript", "unscript", "transcript", "recording", "replay", "verify", "version"),
        *("brief", "verbose", "superbrief", "normal", "short", "long", "notify", "full", "fullscore"),
        *("pronouns", "nouns", "places", "objects", "print_state", "enable", "disable"),
        *("tw-trace-actions", "tw-extra-infos", "tw-print", "actions", "rules", "showme", "showverb", "scope"),
        *("tree", "goto", "purloin", "abstract", "random", "gonear", "relations", "responses", "test", "trace"),
    }
)
# One action a turn: Inform would read a full stop or "then" as the start of a further command.
_NEXT_COMMAND = re.compile(r"\s*(?:\.|;|\bthen\b).*", re.IGNORECASE)


def game_sha256(game_file: Path) -> str:
    """sha256 over the story file and the data beside it: all that playing the game reads."""
    digest = hashlib.sha256(game_file.read_bytes())
    digest.update(game_file.with_suffix(".json").read_bytes())
    return digest.hexdigest()


def _read_story(interpreter: Any, path: str) -> None:
    """In the place of the interpreter's own ``load``, which starts the game, on top of another's memory (0.4 MiB leak), though
    ``reset`` ends it and starts it again; and which keeps every story file ever read."""
    interpreter.story_file = path.encode()
    interpreter._cache = {path: (Path(path).read_bytes(), {}, None)}


class TextWorldEnv(TextEnv):
    """One game of a session. The interpreter is kept from game to game: a new one each time would leak."""

    banned_verbs = BANNED

    def __init__(self, *, legal: bool = False, expert: bool = False) -> None:
        super().__init__()
        self._infos = textworld.EnvInfos(
            feedback=True,
            inventory=True,
            score=True,
            won=True,
            lost=True,
            objective=True,
            admissible_commands=legal,
            policy_commands=expert,
        )
        self._game: Any = None
        self._loaded = ""
        self._room, self._moves, self._inventory = "", 0, ""
        self._shown = Observation(text="")

    def clean(self, action: str) -> str:
        return _NEXT_COMMAND.sub("", sanitise(action)).strip()

    def _reset(self, task: TaskRef, seed: int) -> Observation:
        self._load(task)
        self._game.unwrapped.seed(seed & 0x7FFF)  # the interpreter's seed is a C short
        state = self._game.reset()
        self._room, self._moves = room_and_moves(state.feedback)
        self._inventory = state.inventory or ""
        self._shown = self._read(state, feedback_lines(opening(state.feedback)), goal_text(state.objective))
        return self._shown

    def _load(self, task: TaskRef) -> None:
        if self._loaded == task.sha256:
            return
        self._loaded = ""
        path = str(accepted_file(task, game_sha256))
        if self._game is None:
            self._game = textworld.start(path, self._infos)
            interpreter = self._game.unwrapped._jericho
            interpreter.load = partial(_read_story, weakref.proxy(interpreter))  # no cycle: its end frees its memory
        else:
            self._game.load(path)
        self._loaded = task.sha256

    def _step(self, command: str) -> RawStep:
        state, score, _ = self._game.step(command)
        room, moves = room_and_moves(state.feedback)
        won, lost = bool(state.won), bool(state.lost)
        # The turn counter does not move on a command that the parser does not understand.
        valid = won or lost or moves > self._moves
        self._room, self._moves = room or self._room, max(moves, self._moves)
        self._inventory = state.inventory or self._inventory
        self._shown = self._read(state, feedback_lines(state.feedback), self._shown.goal)
        return RawStep(self._shown, float(score or 0), won=won, lost=lost, valid=valid)

    def _read(self, state: Any, lines: list[str], goal: str) -> Observation:
        return Observation(
            text=observation_text(self._room, lines, self._inventory),
            goal=goal,
            legal=tuple(state.admissible_commands or ()) if self._infos.admissible_commands else (),
            expert=tuple(state.policy_commands or ()) if self._infos.policy_commands else (),
        )

    def _observe(self, message: str) -> Observation:
        text = observation_text(self._room, [message], self._inventory)
        return Observation(text=text, goal=self._shown.goal, legal=self._shown.legal, expert=self._shown.expert)

    def saved(self) -> Any:
        """The interpreter's memory and what was read of it. TextWorld's own tracking of facts, from which legal and expert commands
        come, has no such copy."""
        if self._infos.admissible_commands or self._infos.policy_commands:
            return None
        ours = (self._score, self._playing, self._room, self._moves, self._inventory, self._shown)
        return self._game.unwrapped._jericho.get_state(), self._game.unwrapped.state, ours

    def restore(self, saved: Any) -> None:
        memory, state, ours = saved
        self._game.unwrapped._jericho.set_state(memory)
        layer = self._game
        while layer is not None:  # each wrapper keeps the last state, and carries some of it over to the next
            layer.state = state
            layer = getattr(layer, "_wrapped_env", None)
        self._score, self._playing, self._room, self._moves, self._inventory, self._shown = ours

    def close(self) -> None:
        super().close()
        if self._game is not None:
            self._game.close()
        self._game, self._loaded = None, ""
