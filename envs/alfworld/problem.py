"""A drawn game written down: its PDDL problem in alfworld's form, and the expert's plan."""

from __future__ import annotations

from collections.abc import Iterator

from envs.alfworld import wheel
from envs.alfworld.generate import LAMP, Draft, carried, fixed_receptacles, holds, openable, receptacle_type
from envs.alfworld.goal import demangled
from envs.alfworld.kinds import TOOLS, TWO

Fact = tuple[str, ...]
_MANGLED = (("-", "_minus_"), ("#", "-"), ("|", "_bar_"), ("+", "_plus_"), (".", "_dot_"), (",", "_comma_"))
_ABLE = ("cleanable", "heatable", "coolable", "toggleable", "sliceable")


def mangle(name: str) -> str:
    """Return an id as a PDDL word: ``Mug|+00.10`` becomes ``Mug_bar__plus_00_dot_10``."""
    for sign, word in _MANGLED:
        name = name.replace(sign, word)
    return name


def names_in(draft: Draft) -> dict[str, str]:
    """Return the agent's name of each thing and receptacle, in the order of their ids."""
    ids = {mangle(name).lower(): name for name in (*draft.things, *draft.layout.receptacles)}
    return {ids[name]: shown for name, shown in demangled(ids).items()}


def write(draft: Draft, name: str) -> str:
    """Return a game's problem in the layout of alfworld's files."""
    objects = [f"        {thing} - {kind}" for kind, things in _objects(draft).items() for thing in things]
    facts = [f"        ({' '.join(fact)})" for fact in _facts(draft)]
    lines = ["", f"(define (problem {name})", "(:domain alfred)", "(:objects", *objects, "        )", ""]
    return "\n".join([*lines, "(:init", *facts, "        )", ""]) + _goal(draft)


def _objects(draft: Draft) -> dict[str, list[str]]:
    receptacles, fixed = draft.layout.receptacles, fixed_receptacles()
    things = sorted((wheel.constants().OBJECTS_SET - fixed) | {"Knife", "ButterKnife"})
    return {
        "agent": ["agent1"],
        "otype": [f"{kind}Type" for kind in things],
        "rtype": [f"{kind}Type" for kind in sorted(fixed)],
        "object": [mangle(thing) for thing in sorted(draft.things)],
        "receptacle": [mangle(name) for name in receptacles],
        "location": [mangle(spot) for spot in sorted({*receptacles.values(), draft.start})],
    }


def _facts(draft: Draft) -> Iterator[Fact]:
    receptacles, present = draft.layout.receptacles, {kind for kind, _ in draft.things.values()}
    kinds = {name: receptacle_type(name) for name in receptacles}
    for name, kind in kinds.items():
        yield "receptacleType", mangle(name), f"{kind}Type"
    for thing, (kind, _) in sorted(draft.things.items()):
        yield "objectType", mangle(thing), f"{kind}Type"
    for kind in sorted(set(kinds.values())):
        for held in sorted(holds(kind) & present):
            yield "canContain", f"{kind}Type", f"{held}Type"
    for thing in sorted(draft.things):
        yield from _thing_facts(draft, thing)
    for name in receptacles:
        if openable(name):
            yield "openable", mangle(name)
    yield "atLocation", "agent1", mangle(draft.start)
    for name, spot in receptacles.items():
        yield "receptacleAtLocation", mangle(name), mangle(spot)


def _thing_facts(draft: Draft, thing: str) -> Iterator[Fact]:
    kind, receptacle = draft.things[thing]
    constants = wheel.constants()
    if kind in carried():
        yield "pickupable", mangle(thing)
    if kind in constants.MOVABLE_RECEPTACLES:
        yield "isReceptacleObject", mangle(thing)
    for able in _ABLE:
        if kind in constants.VAL_ACTION_OBJECTS[able.title()]:
            yield able, mangle(thing)
    if receptacle is not None:
        yield "inReceptacle", mangle(thing), mangle(receptacle)
        yield "objectAtLocation", mangle(thing), mangle(draft.layout.receptacles[receptacle])


def _goal(draft: Draft) -> str:
    template = wheel.goals()[draft.task_type]["pddl"]
    return mangle(template.format(obj=draft.target, recep=draft.goal, toggle=LAMP, mrecep=""))


def plan(draft: Draft) -> tuple[str, ...]:
    """Return commands that should win, of an expert who knows where everything is."""
    planner = _Planner(draft)
    for thing in draft.targets[: 2 if draft.task_type == TWO else 1]:
        planner.take(thing)
        if draft.task_type in TOOLS:
            planner.treat(thing, *TOOLS[draft.task_type])
        planner.use(draft.lamp) if draft.lamp else planner.put(thing, draft.destination)
    return tuple(planner.commands)


class _Planner:
    """The agent's location and the open receptacles, while a plan grows."""

    def __init__(self, draft: Draft) -> None:
        self._draft, self._here, self._open = draft, draft.start, set[str]()
        self._names = names_in(draft)
        self.commands: list[str] = []

    def take(self, thing: str) -> None:
        receptacle = self._receptacle(thing)
        self._reach(receptacle)
        self._do("take {} from {}", thing, receptacle)

    def treat(self, thing: str, verb: str, tool: str) -> None:
        receptacle = self._draft.layout.of_type(tool)[0]
        self._go(receptacle)
        self._do(verb + " {} with {}", thing, receptacle)

    def put(self, thing: str, receptacle: str) -> None:
        self._reach(receptacle)
        self._do("move {} to {}", thing, receptacle)

    def use(self, lamp: str) -> None:
        self._go(self._receptacle(lamp))
        self._do("use {}", lamp)

    def _receptacle(self, thing: str) -> str:
        receptacle = self._draft.things[thing][1]
        assert receptacle is not None
        return receptacle

    def _reach(self, receptacle: str) -> None:
        self._go(receptacle)
        if openable(receptacle) and receptacle not in self._open:
            self._do("open {}", receptacle)
            self._open.add(receptacle)

    def _go(self, receptacle: str) -> None:
        """Go to a receptacle, unless the agent stands at its location, which several may share."""
        spot = self._draft.layout.receptacles[receptacle]
        if self._here != spot:
            self._do("go to {}", receptacle)
            self._here = spot

    def _do(self, command: str, *arguments: str) -> None:
        self.commands.append(command.format(*(self._names[name] for name in arguments)))
