"""TextWorld's games: custom ones (``env=textworld``), and a fixed house (``env=tw_simple``).

TextWorld takes a second to import, so only the code that makes or plays a game imports it.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from turngrid.envs.environment import Environment, GameRecord, Params, PromptStyle
from turngrid.envs.text_env import RawStep, TextEnv, sanitise
from turngrid.envs.textworld import interpreter
from turngrid.envs.types import Observation, TaskRef

_TASK = re.compile(r"w([1-9]\d?)-o([1-9]\d?)-q([1-9]\d?)")
_SIMPLE = "tw-simple"

# Inform's commands to the program (leave, rewind, log, change how text is printed) and TextWorld's
# debugging verbs, some of which print the whole state.
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
# Inform reads a full stop or "then" as the start of a further command; a turn has one action.
_NEXT_COMMAND = re.compile(r"\s*(?:\.|;|\bthen\b).*", re.IGNORECASE)
_STATUS = re.compile(r"\n?>\s*(?:-=\s*(?P<room>.+?)\s*=-)?\s*(?:-?\d+/(?P<moves>\d+))?\s*\Z")
_HEADER = re.compile(r"^-=\s*(?P<room>.+?)\s*=-$", re.MULTILINE)
_END = re.compile(r"\*\*\* .+? \*\*\*")
# Shown, a change of the score would make observations depend on the density of the reward.
_SCORE = re.compile(r"Your score has just gone (?:up|down) by [^.]*\.")
_BANNER = re.compile(r"\$\$|____|^[\s|\\/$_]+$")


class TextWorldEnv(TextEnv):
    """One compiled game (.z8 with .json beside it) at a time.

    The agent reads one paragraph, as in the study: the room's name as a sentence, the feedback
    without duplicates, the inventory. Neither the interpreter nor TextWorld is thread-safe: one
    process has one thread, and any number of envs.
    """

    banned_verbs = BANNED

    def __init__(self, settings: Any = None, *, legal: bool = False, expert: bool = False) -> None:
        self._game: Any = interpreter.Tracked(legal, expert) if legal or expert else interpreter.Interpreter()

    def clean_action(self, action: str) -> str:
        return _NEXT_COMMAND.sub("", sanitise(action)).strip()

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        state = self._game.reset(task, seed & 0x7FFF)  # the interpreter's seed is a C short
        self._points = 0.0
        self._room, self._moves = _room_and_moves(state.feedback)
        self._inventory = state.inventory or ""
        self._shown = self._read(state, _feedback_lines(_opening(state.feedback)))
        return self._shown

    def step_game(self, command: str) -> RawStep:
        state = self._game.step(command)
        self._points = self._points if state.score is None else float(state.score)
        room, moves = _room_and_moves(state.feedback)
        won, lost = bool(state.won), bool(state.lost)
        valid = won or lost or moves > self._moves  # a command that is not understood is no move
        self._room, self._moves = room or self._room, max(moves, self._moves)
        self._inventory = state.inventory or self._inventory
        self._shown = self._read(state, _feedback_lines(state.feedback))
        return RawStep(self._shown, self._points, won=won, lost=lost, valid=valid)

    def _read(self, state: Any, lines: list[str]) -> Observation:
        return Observation(
            text=_paragraph(self._room, lines, self._inventory),
            legal=tuple(state.admissible_commands or ()),
            expert=tuple(state.policy_commands or ()),
        )

    def observe_message(self, message: str) -> Observation:
        return replace(self._shown, text=_paragraph(self._room, [message], self._inventory))

    def close_game(self) -> None:
        self._game.close()


def _room_and_moves(raw: str) -> tuple[str, int]:
    """Return the room and the number of moves in the status line; ("", -1) without one."""
    status = _STATUS.search(raw)
    if not status or not status["room"]:
        return "", -1
    return status["room"].lower(), int(status["moves"] or -1)


def _opening(raw: str) -> str:
    """Return the first feedback from the room's header on, without banner and objective."""
    header = _HEADER.search(raw)
    return raw[header.start() :] if header else raw


def _feedback_lines(raw: str) -> list[str]:
    """Return the distinct lines that answer the last command, in order."""
    text = _END.split(_STATUS.sub("", raw))[0]
    lines = (" ".join(_SCORE.sub("", line).split()) for line in _HEADER.sub("", text).splitlines())
    return list(dict.fromkeys(line for line in lines if line and not _BANNER.search(line)))


def _paragraph(room: str, lines: list[str], inventory: str) -> str:
    parts = [f"You are now in the {room}."] if room else []
    carried = " ".join(inventory.split())
    return " ".join([*parts, *lines, *([carried] if carried and carried not in lines else [])])


class TextWorldGames(Environment):
    """Base of both environments."""

    prompt = PromptStyle(
        role="You are playing a text adventure game.",
        action_form='Answer with one action, a verb phrase such as "open box".',
    )
    lists_actions = True
    Env = TextWorldEnv
    package = "textworld"
    recipe = 2

    def game_sha256(self, game_file: Path) -> str:
        return interpreter.game_sha256(game_file)


class TextWorldCustom(TextWorldGames):
    """Custom games ``w{rooms}-o{objects}-q{quest length}``: one quest, one point, at its end.

    The catalogue refuses sizes for which it finds no game.
    """

    name = "textworld"
    rewards = ("sparse", "dense")
    examples = ("w2-o3-q4", "w4-o3-q4", "w2-o6-q4", "w4-o6-q8", "w8-o12-q16")

    def parse_task(self, task: str) -> dict[str, Any]:
        match = _TASK.fullmatch(str(task))
        if not match:
            raise self.unknown(task)
        rooms, objects, quest = map(int, match.groups())
        return {"rooms": rooms, "objects": objects, "quest": quest}

    def max_turns(self, task: str) -> int:
        """Return the study's limits, 12 for quests of up to 4 steps, else 24, or more over 16."""
        quest = self.parse_task(task)["quest"]
        return 12 if quest <= 4 else max(24, quest + quest // 2)

    def optimal_turns(self, params: Params) -> int:
        return params["quest"]

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        from turngrid.envs.textworld import games

        return games.finish(games.custom(**params, seed=seed), folder)


class TwSimple(TextWorldGames):
    """TextWorld's fixed six-room house: leave the locked bedroom, put the food on the stove.

    A seed gives the same house, goal and expert plan at each density of the score (tested). Only
    the number of points differs: 1 for sparse, 3-4 for balanced, 7-10 for dense.
    """

    name = "tw_simple"
    rewards = ("sparse", "balanced", "dense")
    examples = (_SIMPLE,)

    def parse_task(self, task: str) -> dict[str, Any]:
        if str(task).replace("_", "-") != _SIMPLE:
            raise self.unknown(task)
        return {"rewards": "sparse", "goal": "detailed", "test": False}

    def with_reward(self, params: Params, reward: str) -> dict[str, Any]:
        """Choose the density of the score; a reward of another package gets the densest."""
        return {**params, "rewards": reward if reward in TwSimple.rewards else "dense"}

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        from turngrid.envs.textworld import games

        return games.finish(games.challenge(_SIMPLE, dict(params), seed), folder)
