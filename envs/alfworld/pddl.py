"""PDDL problems in alfworld's form: written for new games, read from all of them.

Reading takes in what the domain's problems use: nested lists of words, with comments. Words are in lower case, as the
planner has them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from envs.alfworld import floor_plan, generate, wheel

Expression = str | list["Expression"]
Fact = tuple[str, ...]
_MANGLED = (("-", "_minus_"), ("#", "-"), ("|", "_bar_"), ("+", "_plus_"), (".", "_dot_"), (",", "_comma_"))
_WORD = re.compile(r"[()]|[^\s()]+")
_ABLE = ("cleanable", "heatable", "coolable", "toggleable", "sliceable")


def mangle(name: str) -> str:
    """A simulator's id as a PDDL word: ``Mug|+00.10`` becomes ``Mug_bar__plus_00_dot_10``."""
    for sign, word in _MANGLED:
        name = name.replace(sign, word)
    return name


def demangled(ids: Iterable[str]) -> dict[str, str]:
    """From ids to the names that the agent reads: ``mug_bar__plus_00_dot_10...`` is "mug 2".

    The rule of alfworld's ``Demangler``: the things of a type are numbered, the last id in sorted order being 1. What is
    no thing (agent, types) keeps its id, followed by a space as in alfworld.
    """
    numbers: Counter[str] = Counter()
    names = {}
    for name in sorted(ids, reverse=True):
        kind = name.split("_bar_", 1)[0] + "basin" * ("basin" in name)
        numbers[kind] += "_bar_" in name
        names[name] = f"{kind} {numbers[kind]}" if "_bar_" in name else f"{name} "
    return dict(sorted(names.items()))


def names_in(draft: generate.Draft) -> dict[str, str]:
    """What the agent reads for each thing and receptacle of a game, in the order of their ids in the problem."""
    ids = {mangle(name).lower(): name for name in (*draft.things, *draft.layout.receptacles)}
    return {ids[name]: shown for name, shown in demangled(ids).items()}


def write(draft: generate.Draft, name: str) -> str:
    """The problem of a game in the layout of alfworld's files."""
    objects = [f"        {thing} - {kind}" for kind, things in _objects(draft).items() for thing in things]
    facts = [f"        ({' '.join(fact)})" for fact in _facts(draft)]
    lines = ["", f"(define (problem {name})", "(:domain alfred)", "(:objects", *objects, "        )", ""]
    return "\n".join([*lines, "(:init", *facts, "        )", ""]) + _goal(draft)


def _objects(draft: generate.Draft) -> dict[str, list[str]]:
    receptacles = draft.layout.receptacles
    fixed = floor_plan.fixed_receptacles()
    things = sorted((wheel.constants().OBJECTS_SET - fixed) | {"Knife", "ButterKnife"})
    return {
        "agent": ["agent1"],
        "otype": [f"{kind}Type" for kind in things],
        "rtype": [f"{kind}Type" for kind in sorted(fixed)],
        "object": [mangle(thing) for thing in sorted(draft.things)],
        "receptacle": [mangle(name) for name in receptacles],
        "location": [mangle(spot) for spot in sorted({*receptacles.values(), draft.start})],
    }


def _facts(draft: generate.Draft) -> Iterator[Fact]:
    receptacles, there = draft.layout.receptacles, {kind for kind, _ in draft.things.values()}
    kinds = {name: floor_plan.receptacle_type(name) for name in receptacles}
    for name, kind in kinds.items():
        yield "receptacleType", mangle(name), f"{kind}Type"
    for thing, (kind, _) in sorted(draft.things.items()):
        yield "objectType", mangle(thing), f"{kind}Type"
    for kind in sorted(set(kinds.values())):
        for held in sorted(floor_plan.holds(kind) & there):
            yield "canContain", f"{kind}Type", f"{held}Type"
    for thing in sorted(draft.things):
        yield from _thing_facts(draft, thing)
    for name in receptacles:
        if generate.openable(name):
            yield "openable", mangle(name)
    yield "atLocation", "agent1", mangle(draft.start)
    for name, spot in receptacles.items():
        yield "receptacleAtLocation", mangle(name), mangle(spot)


def _thing_facts(draft: generate.Draft, thing: str) -> Iterator[Fact]:
    kind, receptacle = draft.things[thing]
    constants = wheel.constants()
    if kind in generate.carried():
        yield "pickupable", mangle(thing)
    if kind in constants.MOVABLE_RECEPTACLES:
        yield "isReceptacleObject", mangle(thing)
    for able in _ABLE:
        if kind in constants.VAL_ACTION_OBJECTS[able.title()]:
            yield able, mangle(thing)
    if receptacle is not None:
        yield "inReceptacle", mangle(thing), mangle(receptacle)
        yield "objectAtLocation", mangle(thing), mangle(draft.layout.receptacles[receptacle])


def _goal(draft: generate.Draft) -> str:
    template = wheel.goals()[draft.task_type]["pddl"]
    return mangle(template.format(obj=draft.target, recep=draft.goal, toggle=generate.LAMP, mrecep=""))


def read(text: str) -> Expression:
    """The nested lists of a problem or a domain.

    Raises:
        ValueError: brackets that do not match, or nothing at all.
    """
    stack: list[list[Expression]] = [[]]
    for word in _WORD.findall(re.sub(r";[^\n]*", "", text).lower()):
        if word == "(":
            stack.append([])
        elif word == ")":
            if len(stack) == 1:
                raise ValueError("a bracket too many in the PDDL")
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(word)
    if len(stack) != 1 or not stack[0]:
        raise ValueError("the PDDL ends in the middle" if len(stack) > 1 else "the PDDL is empty")
    return stack[0][0]


def section(problem: Expression, name: str) -> list[Expression]:
    """What follows ``(:name`` in a problem; an empty list where there is no such section."""
    for part in problem:
        if isinstance(part, list) and part and part[0] == f":{name}":
            return part[1:]
    return []


def initial_facts(problem: Expression) -> list[Fact]:
    """The facts that hold at first; assignments of numbers are left out."""
    facts = [part for part in section(problem, "init") if isinstance(part, list) and part and part[0] != "="]
    return [tuple(str(word) for word in fact) for fact in facts]
