"""An expert that plays from what is visible, as an agent must: it searches the places until it has seen what the goal
names, then takes, treats and moves it.

It reads the texts of the game and nothing else, except that it asks which of its own commands would be accepted: places
that are reached from one spot cannot be told from each other by the texts.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from envs.alfworld import wheel
from envs.alfworld.kinds import LIGHT, TOOLS, TWO, TYPES

_NAMED = re.compile(r"\ban? ([a-z]+ \d+)")


@dataclass(frozen=True)
class Wanted:
    """A goal's words: ``thing`` and ``place`` are types in lower case; ``place`` is the lamp where one looks at the
    thing in its light."""

    task_type: str
    thing: str
    place: str


def wanted(goal: str) -> Wanted:
    """What the words of a task ask for.

    Raises:
        ValueError: they follow none of alfworld's templates.
    """
    for task_type, pattern in _templates():
        if found := pattern.fullmatch(goal.lower().strip(" .")):
            return Wanted(task_type, *found.groups())
    raise ValueError(f"the task is worded in a way of its own: {goal!r}")


@functools.cache
def _templates() -> list[tuple[str, re.Pattern[str]]]:
    """A type is one word, so "put a hot mug in desk" is no task about a thing called "hot mug"."""
    word = r"([a-z]+)"
    return [
        (task_type, re.compile(template.format(obj=word, recep=word, toggle=word, mrecep="")))
        for task_type in TYPES
        for template in wheel.goals()[task_type]["templates"]
    ]


def kind(name: str) -> str:
    """The type in a name: "mug" of "mug 2". alfworld's names say "basin" twice of a SinkBasin that is no part of a Sink."""
    return name.rsplit(" ", 1)[0].replace("basinbasin", "basin")


class Searcher:
    """One game from its first text on: ``act``, then ``saw`` what came of it, and so on. It draws nothing at random.

    ``seen`` maps each thing that was told of to the place where it was last.
    """

    def __init__(self, goal: str, opening: str) -> None:
        self.wanted = wanted(goal)
        self.places = _NAMED.findall(opening)
        self.seen: dict[str, str] = {}
        self.held = ""
        self._treated: set[str] = set()
        self._done_at = ""
        self._left = self._in_order()

    def _in_order(self) -> list[str]:
        """Where such a thing may lie at all comes first, and of that what stands open; else as the text has it."""
        return sorted(self.places, key=lambda place: (not may_hold(kind(place), self.wanted.thing), shut(kind(place))))

    def saw(self, command: str, answer: str) -> None:
        """Take in what the game answered."""
        verb, *words = command.split()
        match verb:
            case "go" | "open" | "examine" if "you see" in answer:
                place = " ".join(words[-2:])
                self.seen |= {name: place for name in _NAMED.findall(answer)}
                self._left = [other for other in self._left if other != place]
            case "take" if answer.startswith("You pick up"):
                self.held = " ".join(words[:2])
                self.seen.pop(self.held, None)
            case "move" if answer.startswith("You move"):
                self._put(" ".join(words[:2]), " ".join(words[-2:]))
            case "clean" | "heat" | "cool" if answer.startswith(f"You {verb}"):
                self._treated.add(" ".join(words[:2]))

    def _put(self, thing: str, place: str) -> None:
        self.held, self.seen[thing] = "", place
        if kind(thing) == self.wanted.thing and kind(place) == self.wanted.place:
            self._done_at = place

    def act(self, legal: Collection[str]) -> str:
        """The next command, one of ``legal``."""
        steps: tuple[Callable[[Collection[str]], str], ...] = (self._use_up, self._put_down, self._take, self._search)
        return next((command for step in steps if (command := step(legal))), "look")

    def _use_up(self, legal: Collection[str]) -> str:
        """Once the thing is in hand: treat it, look at it under the lamp, or bring it to its place."""
        if kind(self.held) != self.wanted.thing:
            return ""
        verb, tool = TOOLS.get(self.wanted.task_type, ("", ""))
        if self.wanted.task_type == LIGHT:
            lamps = ((name, place) for name, place in self.seen.items() if kind(name) == self.wanted.place)
            return next((_reach(place, f"use {name}", legal) for name, place in lamps), "")
        if verb and self.held not in self._treated:
            return self._at(tool.lower(), f"{verb} {self.held} with {{}}", legal)
        return self._at(self.wanted.place, f"move {self.held} to {{}}", legal)

    def _put_down(self, legal: Collection[str]) -> str:
        """What is not wanted is in the way: a hand holds one thing."""
        if not self.held or kind(self.held) == self.wanted.thing:
            return ""
        return next((command for place in self.places if (command := f"move {self.held} to {place}") in legal), "")

    def _take(self, legal: Collection[str]) -> str:
        if self.held:
            return ""
        found = ((name, place) for name, place in self.seen.items() if self._wants(name, place))
        return next((_reach(place, f"take {name} from {place}", legal) for name, place in found), "")

    def _wants(self, name: str, place: str) -> bool:
        if kind(name) != self.wanted.thing:
            return False
        if self.wanted.task_type == TWO:
            return place != self._done_at
        return kind(place) != self.wanted.place or (self.wanted.task_type in TOOLS and name not in self._treated)

    def _search(self, legal: Collection[str]) -> str:
        """The next place that was not looked into; all over again once none is left."""
        self._left = self._left or self._in_order()
        place = self._left[0]
        return _first(legal, f"go to {place}", f"open {place}", f"examine {place}")

    def _at(self, wanted: str, command: str, legal: Collection[str]) -> str:
        """``command`` at a place of that type: the one where it can be done now, else the first."""
        places = [place for place in self.places if kind(place) == wanted]
        if wanted == self.wanted.place and self._done_at:
            places = [self._done_at]
        here = [place for place in places if f"go to {place}" not in legal]
        return next((_reach(place, command.format(place), legal) for place in here + places), "")


def _reach(place: str, command: str, legal: Collection[str]) -> str:
    """``command``, or what makes it possible: to go to ``place``, to open it."""
    return _first(legal, command, f"go to {place}", f"open {place}")


def _first(legal: Collection[str], *commands: str) -> str:
    return next((command for command in commands if command in legal), "")


@functools.cache
def _holds() -> dict[str, set[str]]:
    table = wheel.constants().VAL_RECEPTACLE_OBJECTS
    return {place.lower(): {thing.lower() for thing in things} for place, things in table.items()}


def may_hold(place: str, thing: str) -> bool:
    """Whether such a thing is ever put on or into such a place (alfworld's own table, by types in lower case)."""
    return thing in _holds().get(place, ())


def shut(place: str) -> bool:
    """Whether such a place has to be opened before one sees what is in it."""
    return place in map(str.lower, wheel.constants().OPENABLE_CLASS_SET)
