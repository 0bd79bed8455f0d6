"""An expert that acts on what is visible. It searches the receptacles until it has seen what the
goal names, then takes, treats and moves it.

It reads the game's texts. It also checks which of its own commands would be accepted, since the
texts do not say which receptacles share a location.
"""

import functools
import re
from collections.abc import Callable, Collection

from turngrid.envs.alfworld import wheel
from turngrid.envs.alfworld.env import NOTHING, Engine
from turngrid.envs.alfworld.goal import wanted
from turngrid.envs.alfworld.kinds import LIGHT, TOOLS, TWO
from turngrid.envs.environment import Rejected

_NAMED = re.compile(r"\ban? ([a-z]+ \d+)")


def kind(name: str) -> str:
    """Return a name's type; alfworld writes "basinbasin" for a SinkBasin outside a Sink."""
    return name.rsplit(" ", 1)[0].replace("basinbasin", "basin")


def plan(engine: Engine, limit: int) -> tuple[str, ...]:
    """Return the commands by which the searcher wins the loaded game.

    Raises:
        Rejected: it does not win within ``limit`` commands, or cannot read the task's words.
    """
    introduction = engine.reset()
    searcher = Searcher(engine.task, introduction)
    commands: list[str] = []
    while len(commands) < limit:
        commands.append(searcher.act(engine.commands))
        searcher.saw(commands[-1], engine.step(commands[-1]) or NOTHING)
        if engine.won:
            return tuple(commands)
    raise Rejected(f"the searcher expert did not win within {limit} commands")


class Searcher:
    """Solves one game, without randomness: call ``act``, then ``saw`` with the answer, in turn.

    ``seen`` maps each object to the receptacle where it was seen last.
    """

    def __init__(self, goal: str, opening: str) -> None:
        self.wanted = wanted(goal)
        self.receptacles = _NAMED.findall(opening)
        self.seen: dict[str, str] = {}
        self.held = ""
        self._treated: set[str] = set()
        self._done_at = ""
        self._left = self._in_order()

    def _in_order(self) -> list[str]:
        """Sort the receptacles: those that may hold the object, and of these open ones, first."""
        holds, shut = _tables()

        def rank(receptacle: str) -> tuple[bool, bool]:
            return self.wanted.object_type not in holds.get(kind(receptacle), ()), kind(receptacle) in shut

        return sorted(self.receptacles, key=rank)

    def saw(self, command: str, answer: str) -> None:
        verb, *words = command.split()
        match verb:
            case "go" | "open" | "examine" if "you see" in answer:
                receptacle = " ".join(words[-2:])
                self.seen |= {name: receptacle for name in _NAMED.findall(answer)}
                self._left = [other for other in self._left if other != receptacle]
            case "take" if answer.startswith("You pick up"):
                self.held = " ".join(words[:2])
                self.seen.pop(self.held, None)
            case "move" if answer.startswith("You move"):
                self._put(" ".join(words[:2]), " ".join(words[-2:]))
            case "clean" | "heat" | "cool" if answer.startswith(f"You {verb}"):
                self._treated.add(" ".join(words[:2]))

    def _put(self, obj: str, receptacle: str) -> None:
        self.held, self.seen[obj] = "", receptacle
        if kind(obj) == self.wanted.object_type and kind(receptacle) == self.wanted.target:
            self._done_at = receptacle

    def act(self, legal: Collection[str]) -> str:
        """Return the next command, one of ``legal``."""
        steps: tuple[Callable[[Collection[str]], str], ...] = (self._use_up, self._put_down, self._take, self._search)
        return next((command for step in steps if (command := step(legal))), "look")

    def _use_up(self, legal: Collection[str]) -> str:
        """With the object in hand: treat it, switch the lamp on, or bring it to its target."""
        if kind(self.held) != self.wanted.object_type:
            return ""
        verb, tool = TOOLS.get(self.wanted.task_type, ("", ""))
        if self.wanted.task_type == LIGHT:
            lamps = ((name, receptacle) for name, receptacle in self.seen.items() if kind(name) == self.wanted.target)
            return next((_reach(receptacle, f"use {name}", legal) for name, receptacle in lamps), "")
        if verb and self.held not in self._treated:
            return self._at(tool.lower(), f"{verb} {self.held} with {{}}", legal)
        return self._at(self.wanted.target, f"move {self.held} to {{}}", legal)

    def _put_down(self, legal: Collection[str]) -> str:
        """Put down an object that is not wanted, since the agent holds one object at a time."""
        if not self.held or kind(self.held) == self.wanted.object_type:
            return ""
        return _first(legal, *(f"move {self.held} to {name}" for name in self.receptacles))

    def _take(self, legal: Collection[str]) -> str:
        if self.held:
            return ""
        visible = ((name, receptacle) for name, receptacle in self.seen.items() if self._wants(name, receptacle))
        return next((_reach(receptacle, f"take {name} from {receptacle}", legal) for name, receptacle in visible), "")

    def _wants(self, name: str, receptacle: str) -> bool:
        if kind(name) != self.wanted.object_type:
            return False
        if self.wanted.task_type == TWO:
            return receptacle != self._done_at
        return kind(receptacle) != self.wanted.target or (self.wanted.task_type in TOOLS and name not in self._treated)

    def _search(self, legal: Collection[str]) -> str:
        """Search the next receptacle; after the last one, begin again."""
        self._left = self._left or self._in_order()
        receptacle = self._left[0]
        return _first(legal, f"go to {receptacle}", f"open {receptacle}", f"examine {receptacle}")

    def _at(self, wanted: str, command: str, legal: Collection[str]) -> str:
        """Return ``command`` at a receptacle of a type, at the agent's location if possible."""
        candidates = [receptacle for receptacle in self.receptacles if kind(receptacle) == wanted]
        if wanted == self.wanted.target and self._done_at:
            candidates = [self._done_at]
        here = [receptacle for receptacle in candidates if f"go to {receptacle}" not in legal]
        return next((_reach(receptacle, command.format(receptacle), legal) for receptacle in here + candidates), "")


def _reach(receptacle: str, command: str, legal: Collection[str]) -> str:
    """Return ``command``, or the command that makes it possible: go there, or open it."""
    return _first(legal, command, f"go to {receptacle}", f"open {receptacle}")


def _first(legal: Collection[str], *commands: str) -> str:
    return next((command for command in commands if command in legal), "")


@functools.cache
def _tables() -> tuple[dict[str, set[str]], set[str]]:
    """Return what each type of receptacle may hold, and the types to open first; lower case."""
    constants = wheel.constants()
    contents = constants.VAL_RECEPTACLE_OBJECTS.items()
    holds = {receptacle.lower(): {*map(str.lower, objects)} for receptacle, objects in contents}
    return holds, {*map(str.lower, constants.OPENABLE_CLASS_SET)}
