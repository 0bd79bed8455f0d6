"""Playing compiled TextWorld games (.z8 with its .json beside it) through the interpreter in this process.

Neither the interpreter nor TextWorld is thread-safe: one process, one thread, any number of envs.
"""

from __future__ import annotations

import re
from typing import Any

from envs.text_env import RawStep, TextEnv, sanitise
from envs.textworld.story import Episode
from envs.textworld.text import feedback_lines, observation_text, opening, room_and_moves
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


class TextWorldEnv(TextEnv):
    """One game of a session."""

    banned_verbs = BANNED

    def __init__(self, *, legal: bool = False, expert: bool = False) -> None:
        self._game: Any = _tracked(legal, expert) if legal or expert else Episode()
        self._points, self._room, self._moves, self._inventory = 0.0, "", 0, ""
        self._shown = Observation(text="")

    def clean_action(self, action: str) -> str:
        return _NEXT_COMMAND.sub("", sanitise(action)).strip()

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        state = self._game.reset(task, seed & 0x7FFF)  # the interpreter's seed is a C short
        self._points = 0.0
        self._room, self._moves = room_and_moves(state.feedback)
        self._inventory = state.inventory or ""
        self._shown = self._read(state, feedback_lines(opening(state.feedback)), task.goal)
        return self._shown

    def step_game(self, command: str) -> RawStep:
        state = self._game.step(command)
        self._points = self._points if state.score is None else float(state.score)
        room, moves = room_and_moves(state.feedback)
        won, lost = bool(state.won), bool(state.lost)
        # The turn counter does not move on a command that the parser does not understand.
        valid = won or lost or moves > self._moves
        self._room, self._moves = room or self._room, max(moves, self._moves)
        self._inventory = state.inventory or self._inventory
        self._shown = self._read(state, feedback_lines(state.feedback), self._shown.goal)
        return RawStep(self._shown, self._points, won=won, lost=lost, valid=valid)

    def _read(self, state: Any, lines: list[str], goal: str) -> Observation:
        return Observation(
            text=observation_text(self._room, lines, self._inventory),
            goal=goal,
            legal=tuple(state.admissible_commands or ()),
            expert=tuple(state.policy_commands or ()),
        )

    def observe_message(self, message: str) -> Observation:
        text = observation_text(self._room, [message], self._inventory)
        return Observation(text=text, goal=self._shown.goal, legal=self._shown.legal, expert=self._shown.expert)

    def save_game(self) -> Any:
        """The interpreter's state and what was read of it. TextWorld's own tracking of facts, from which legal and expert commands
        come, has no such copy."""
        if not isinstance(self._game, Episode):
            return None
        return self._game.state, (self._points, self._room, self._moves, self._inventory, self._shown)

    def restore_game(self, saved: Any) -> None:
        self._game.state, ours = saved
        self._points, self._room, self._moves, self._inventory, self._shown = ours

    def close_game(self) -> None:
        self._game.close()


def _tracked(legal: bool, expert: bool) -> Any:
    from envs.textworld.tracked import Tracked  # TextWorld itself takes a second to import

    return Tracked(legal, expert)
