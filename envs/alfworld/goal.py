"""Read a game's PDDL: its facts, its goal, and how many of the goal's conditions hold.

The conditions and their number are ALFRED's (Shridhar et al. 2020, arXiv 1912.01734,
"goal-condition success"; alfworld has them in ``alfworld/env/tasks.py``, ``goal_conditions_met``):

    pick_and_place_simple     1  the thing is in the receptacle
    look_at_obj_in_light      2  the thing is in hand; the agent is at a lamp that was switched on
    pick_{clean,heat,cool}    3  such a thing is in the receptacle; one was treated; one is both
    pick_two_obj_and_place    2  the most such things in one receptacle, up to two

All of them hold exactly if the game is won.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from turngrid.envs.alfworld.kinds import LIGHT, TOOLS, TWO, TYPES
from turngrid.envs.alfworld.text import Arguments, Facts

Expression = str | list["Expression"]
_WORD = re.compile(r"[()]|[^\s()]+")
_STATES = {"isclean": TYPES[2], "ishot": TYPES[3], "iscool": TYPES[4]}
_ABLE = {TYPES[2]: "cleanable", TYPES[3]: "heatable", TYPES[4]: "coolable"}
_UNSUPPORTED = ("issliced", "inreceptacleobject", "forall", "or", "when")
_TOTALS = {LIGHT: 2, TWO: 2}


def read(text: str) -> Expression:
    """Return the nested lists of a problem; words are in lower case, as in the planner.

    Raises:
        ValueError: brackets that do not match, or no content.
    """
    words = iter(_WORD.findall(re.sub(r";[^\n]*", "", text).lower()))
    if next(words, "") != "(":
        raise ValueError("the PDDL is empty")
    problem = list(_nested(words))
    if next(words, ""):
        raise ValueError("a bracket too many in the PDDL")
    return problem


def _nested(words: Iterator[str]) -> Iterator[Expression]:
    for word in words:
        if word == ")":
            return
        yield list(_nested(words)) if word == "(" else word
    raise ValueError("the PDDL ends in the middle")


def section(problem: Expression, name: str) -> list[Expression]:
    """Return the content of ``(:name ...)`` in a problem, or []."""
    for part in problem:
        if isinstance(part, list) and part and part[0] == f":{name}":
            return part[1:]
    return []


def initial_facts(problem: Expression) -> list[Arguments]:
    """Return the facts of the initial state, without assignments of numbers."""
    facts = [part for part in section(problem, "init") if isinstance(part, list) and part and part[0] != "="]
    return [tuple(str(word) for word in fact) for fact in facts]


def demangled(ids: Iterable[str]) -> dict[str, str]:
    """Return the agent's name of each id: ``mug_bar__plus_00_dot_10...`` is "mug 2".

    This is the rule of alfworld's ``Demangler``: things of a type are numbered, and the last id in
    sorted order gets 1. An id that is no thing (agent, type) keeps its text and a trailing space,
    as in alfworld.
    """
    numbers: Counter[str] = Counter()
    names = {}
    for name in sorted(ids, reverse=True):
        kind = name.split("_bar_", 1)[0] + "basin" * ("basin" in name)
        numbers[kind] += "_bar_" in name
        names[name] = f"{kind} {numbers[kind]}" if "_bar_" in name else f"{name} "
    return dict(sorted(names.items()))


@dataclass(frozen=True)
class Goal:
    """A goal; ``target``, ``receptacle`` and ``lamp`` are types in lower case, "" if not used."""

    task_type: str
    target: str
    receptacle: str = ""
    lamp: str = ""

    @property
    def total(self) -> int:
        return 3 if self.task_type in TOOLS else _TOTALS.get(self.task_type, 1)

    def met(self, facts: Facts) -> int:
        targets = {thing for thing, kind in facts.get("objecttype", ()) if kind == f"{self.target}type"}
        if self.task_type == LIGHT:
            held = any(thing in targets for _, thing in facts.get("holds", ()))
            return held + self._lit(facts)
        wanted = {name for name, kind in facts.get("receptacletype", ()) if kind == f"{self.receptacle}type"}
        placed = [(thing, name) for thing, name in facts.get("inreceptacle", ()) if thing in targets and name in wanted]
        if self.task_type == TWO:
            places = [receptacle for _, receptacle in placed]
            return min(2, max(map(places.count, places), default=0))
        if self.task_type not in TOOLS:
            return int(bool(placed))
        treated = self._treated(facts) & targets
        return bool(placed) + bool(treated) + any(thing in treated for thing, _ in placed)

    def _treated(self, facts: Facts) -> set[str]:
        state = next(name for name, task_type in _STATES.items() if task_type == self.task_type)
        able = {thing for (thing,) in facts.get(_ABLE[self.task_type], ())}
        return {thing for (thing,) in facts.get(state, ())} & able

    def _lit(self, facts: Facts) -> bool:
        """Return whether the agent stands at a lamp that was toggled, even if it is off again."""
        here = {spot for _, spot in facts.get("atlocation", ())}
        near = {receptacle for receptacle, spot in facts.get("receptacleatlocation", ()) if spot in here}
        lamps = {thing for thing, kind in facts.get("objecttype", ()) if kind == f"{self.lamp}type"}
        on = {thing for (thing,) in facts.get("istoggled", set()) & facts.get("toggleable", set())} & lamps
        return any(thing in on and receptacle in near for thing, receptacle in facts.get("inreceptacle", ()))


def parse(problem: Expression) -> Goal:
    """Return the goal of a problem.

    Raises:
        ValueError: the goal is not one of the six task types.
    """
    atoms = list(_atoms(section(problem, "goal")))
    names = [atom[0] for atom in atoms]
    if any(name in _UNSUPPORTED for name in names):
        raise ValueError("the goal is not one of the six task types")
    kinds = {atom[1]: atom[2].removesuffix("type") for atom in atoms if atom[0] in ("objecttype", "receptacletype")}
    if "holds" in names:
        held = next((atom[2] for atom in atoms if atom[0] == "holds"), "")
        lamp = next((atom[1] for atom in atoms if atom[0] == "istoggled"), "")
        goal = Goal(LIGHT, kinds.get(held, ""), lamp=kinds.get(lamp, ""))
    else:
        goal = _placing(atoms, names, kinds)
    if not goal.target or not (goal.lamp or goal.receptacle):
        raise ValueError("the goal does not say which types of things it is about")
    return goal


def _placing(atoms: list[Arguments], names: list[str], kinds: dict[str, str]) -> Goal:
    placed = [atom for atom in atoms if atom[0] == "inreceptacle"]
    states = [_STATES[name] for name in names if name in _STATES]
    if len(states) > 1 or len(placed) not in (1, 2) or (states and len(placed) == 2):
        raise ValueError("the goal is not one of the six task types")
    task_type = states[0] if states else TWO if len(placed) == 2 else TYPES[0]
    _, thing, receptacle = placed[0]
    return Goal(task_type, kinds.get(thing, ""), kinds.get(receptacle, ""))


def _atoms(parts: Iterable[Expression]) -> Iterator[Arguments]:
    """Yield the predicates of a formula, and connectives that the six types do not use."""
    for part in parts:
        if not isinstance(part, list) or not part:
            continue
        if part[0] in _UNSUPPORTED:
            yield (str(part[0]), *(str(word) for word in part[1:]))
        elif all(isinstance(word, str) for word in part) and not str(part[0]).startswith("?"):
            yield tuple(str(word) for word in part)
        else:
            yield from _atoms(part)
