"""A drawn game written down: its PDDL problem in alfworld's form, and the expert's plan."""

from collections.abc import Iterator

from turngrid.envs.alfworld import wheel
from turngrid.envs.alfworld.generate import LAMP, Draft, carried, fixed_receptacles, holds, openable, receptacle_type
from turngrid.envs.alfworld.goal import demangled
from turngrid.envs.alfworld.kinds import TOOLS, TWO

Fact = tuple[str, ...]
_MANGLED = (("-", "_minus_"), ("#", "-"), ("|", "_bar_"), ("+", "_plus_"), (".", "_dot_"), (",", "_comma_"))
_ABLE = ("cleanable", "heatable", "coolable", "toggleable", "sliceable")


def mangle(name: str) -> str:
    """Return an id as a PDDL word: ``Mug|+00.10`` becomes ``Mug_bar__plus_00_dot_10``."""
    for sign, word in _MANGLED:
        name = name.replace(sign, word)
    return name


def names_in(draft: Draft) -> dict[str, str]:
    """Return the agent's name of each object and receptacle, in the order of their ids."""
    ids = {mangle(name).lower(): name for name in (*draft.objects, *draft.layout.receptacles)}
    return {ids[name]: shown for name, shown in demangled(ids).items()}


def write(draft: Draft, name: str) -> str:
    """Return a game's problem in the layout of alfworld's files."""
    listed = [f"        {obj} - {kind}" for kind, names in _objects(draft).items() for obj in names]
    facts = [f"        ({' '.join(fact)})" for fact in _facts(draft)]
    lines = ["", f"(define (problem {name})", "(:domain alfred)", "(:objects", *listed, "        )", ""]
    goal = wheel.goals()[draft.task_type]["pddl"].format(obj=draft.target, recep=draft.goal, toggle=LAMP, mrecep="")
    return "\n".join([*lines, "(:init", *facts, "        )", ""]) + mangle(goal)


def _objects(draft: Draft) -> dict[str, list[str]]:
    receptacles, fixed = draft.layout.receptacles, fixed_receptacles()
    object_types = sorted((wheel.constants().OBJECTS_SET - fixed) | {"Knife", "ButterKnife"})
    return {
        "agent": ["agent1"],
        "otype": [f"{kind}Type" for kind in object_types],
        "rtype": [f"{kind}Type" for kind in sorted(fixed)],
        "object": [mangle(obj) for obj in sorted(draft.objects)],
        "receptacle": [mangle(name) for name in receptacles],
        "location": [mangle(spot) for spot in sorted({*receptacles.values(), draft.start})],
    }


def _facts(draft: Draft) -> Iterator[Fact]:
    receptacles, present = draft.layout.receptacles, {kind for kind, _ in draft.objects.values()}
    kinds = {name: receptacle_type(name) for name in receptacles}
    for name, kind in kinds.items():
        yield "receptacleType", mangle(name), f"{kind}Type"
    for obj, (kind, _) in sorted(draft.objects.items()):
        yield "objectType", mangle(obj), f"{kind}Type"
    for kind in sorted(set(kinds.values())):
        for held in sorted(holds(kind) & present):
            yield "canContain", f"{kind}Type", f"{held}Type"
    for obj in sorted(draft.objects):
        yield from _object_facts(draft, obj)
    for name in receptacles:
        if openable(name):
            yield "openable", mangle(name)
    yield "atLocation", "agent1", mangle(draft.start)
    for name, spot in receptacles.items():
        yield "receptacleAtLocation", mangle(name), mangle(spot)


def _object_facts(draft: Draft, obj: str) -> Iterator[Fact]:
    kind, receptacle = draft.objects[obj]
    constants = wheel.constants()
    if kind in carried():
        yield "pickupable", mangle(obj)
    if kind in constants.MOVABLE_RECEPTACLES:
        yield "isReceptacleObject", mangle(obj)
    for able in _ABLE:
        if kind in constants.VAL_ACTION_OBJECTS[able.title()]:
            yield able, mangle(obj)
    if receptacle is not None:
        yield "inReceptacle", mangle(obj), mangle(receptacle)
        yield "objectAtLocation", mangle(obj), mangle(draft.layout.receptacles[receptacle])


def plan(draft: Draft) -> tuple[str, ...]:
    """Return commands that should win, of an expert who knows where everything is."""
    names, here, opened, commands = names_in(draft), draft.start, set[str](), list[str]()
    for receptacle, command, inside in _steps(draft, names):
        location = draft.layout.receptacles[receptacle]
        if here != location:  # receptacles may share a location
            commands.append(f"go to {names[receptacle]}")
            here = location
        if inside and openable(receptacle) and receptacle not in opened:
            commands.append(f"open {names[receptacle]}")
            opened.add(receptacle)
        commands.append(command)
    return tuple(commands)


def _steps(draft: Draft, names: dict[str, str]) -> Iterator[tuple[str, str, bool]]:
    """Yield where a command is done, the command, and whether the receptacle must be open."""
    for obj in draft.targets[: 2 if draft.task_type == TWO else 1]:
        name, receptacle = names[obj], _receptacle(draft, obj)
        yield receptacle, f"take {name} from {names[receptacle]}", True
        if draft.task_type in TOOLS:
            verb, tool = TOOLS[draft.task_type]
            receptacle = draft.layout.of_type(tool)[0]
            yield receptacle, f"{verb} {name} with {names[receptacle]}", False
        if draft.lamp:
            yield _receptacle(draft, draft.lamp), f"use {names[draft.lamp]}", False
        else:
            yield draft.destination, f"move {name} to {names[draft.destination]}", True


def _receptacle(draft: Draft, obj: str) -> str:
    receptacle = draft.objects[obj][1]
    assert receptacle is not None
    return receptacle
