"""A drawn ALFWorld game without the planner, whose translator takes 0.2 s a game.

It has the same commands and texts (tested), without ``look``, ``inventory``, ``help``, ``slice``
and examining a thing.
"""

from __future__ import annotations

from turngrid.envs.alfworld import wheel
from turngrid.envs.alfworld.env import NOTHING
from turngrid.envs.alfworld.generate import Draft, carried, holds, openable, receptacle_type
from turngrid.envs.alfworld.kinds import LIGHT, TOOLS, TWO
from turngrid.envs.alfworld.problem import names_in


class House:
    """One game; things and receptacles have the names of the texts."""

    def __init__(self, draft: Draft) -> None:
        shown = names_in(draft)
        self.draft, self.goal = draft, f"{draft.words}."
        self.places = {shown[name]: name for name in shown if name in draft.layout.receptacles}
        self.things = {shown[name]: draft.objects[name][0] for name in shown if name in draft.objects}
        self._where = {shown[name]: shown[place] for name in shown if (place := draft.objects.get(name, ("", None))[1])}
        self._spot, self._held, self.won = "", "", False
        self._open: set[str] = set()
        self._treated: set[tuple[str, str]] = set()
        self._lit: set[str] = set()
        self.opening = (
            f"You are in the middle of a room. Looking quickly around you, you see {_listed(list(self.places))}."
        )

    @property
    def commands(self) -> list[str]:
        """The commands that apply now, of those that a house has."""
        layout = self.draft.layout.receptacles
        goes = [f"go to {place}" for place, name in self.places.items() if layout[name] != self._spot]
        here = [place for place, name in self.places.items() if layout[name] == self._spot]
        return [*goes, *(command for place in here for command in self._at(place))]

    def _at(self, place: str) -> list[str]:
        found = [f"examine {place}"]
        if openable(self.places[place]):
            found.append(f"{'close' if place in self._open else 'open'} {place}")
        kind = receptacle_type(self.places[place])
        found += [f"use {thing}" for thing in self._in(place) if self._able(thing, "toggle")]
        if self._held:
            able = [verb for verb, tool in TOOLS.values() if tool == kind and self._able(self._held, verb)]
            found += [f"{verb} {self._held} with {place}" for verb in able]
        if self._shut(place):
            return found
        if not self._held:
            takes = [thing for thing in self._in(place) if self.things[thing] in carried()]
            return found + [f"take {thing} from {place}" for thing in takes]
        return found + [f"move {self._held} to {place}"] * (self.things[self._held] in holds(kind))

    def _in(self, place: str) -> list[str]:
        """Return the things in a place, in the order of their ids."""
        return [thing for thing in self.things if self._where.get(thing) == place]

    def _shut(self, place: str) -> bool:
        return openable(self.places[place]) and place not in self._open

    def _able(self, thing: str, verb: str) -> bool:
        return self.things[thing] in wheel.constants().VAL_ACTION_OBJECTS[f"{verb.title()}able"]

    def step(self, command: str) -> str:
        """Return the game's answer and set ``won``."""
        if command not in self.commands:
            return NOTHING
        verb, *words = command.split()
        thing, place = " ".join(words[:2]), " ".join(words[-2:])
        answer = self._do(verb, thing, place)
        self.won = self._is_won()
        return answer

    def _do(self, verb: str, thing: str, place: str) -> str:
        match verb:
            case "go":
                self._spot = self.draft.layout.receptacles[self.places[place]]
                return f"You arrive at {place}. {self._seen(place)}"
            case "open":
                self._open.add(place)
                return f"You open the {place}. {self._seen(place)}"
            case "close":
                self._open.remove(place)
                return f"You close the {place}."
            case "take":
                self._held = thing
                del self._where[thing]
                return f"You pick up the {thing} from the {place}."
            case "move":
                self._held, self._where[thing] = "", place
                return f"You move the {thing} to the {place}."
            case "use":
                self._lit.add(thing)
                return f"You turn on the {thing}."
            case "examine":
                return self._seen(place)
        self._treated.add((verb, thing))
        self._treated -= {({"heat": "cool", "cool": "heat"}.get(verb, ""), thing)}
        return f"You {verb} the {thing} using the {place}."

    def _is_won(self) -> bool:
        draft, kind = self.draft, self.draft.task_type
        if kind == LIGHT:
            lit = {self._where[lamp] for lamp in self._lit if self.things[lamp] == "DeskLamp"}
            return self.things.get(self._held) == draft.target and any(
                draft.layout.receptacles[self.places[place]] == self._spot for place in lit
            )
        there = [
            place
            for thing, place in self._where.items()
            if self.things[thing] == draft.target
            and receptacle_type(self.places[place]) == draft.goal
            and (kind not in TOOLS or (TOOLS[kind][0], thing) in self._treated)
        ]
        return max(map(there.count, there), default=0) >= (2 if kind == TWO else 1)

    def _seen(self, place: str) -> str:
        if not openable(self.places[place]):
            return f"On the {place}, you see {_listed(self._in(place))}."
        if self._shut(place):
            return f"The {place} is closed."
        return f"The {place} is open. In it, you see {_listed(self._in(place))}."


def _listed(found: list[str]) -> str:
    told = [f"a {name}" for name in found] or ["nothing"]
    return ", and ".join(filter(None, (", ".join(told[:-1]), told[-1])))
