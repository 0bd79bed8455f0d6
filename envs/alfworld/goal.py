"""A game's goal: its words, and how many of its conditions hold.

The conditions and their number are ALFRED's (Shridhar et al. 2020, arXiv 1912.01734,
"goal-condition success"; alfworld has them in ``alfworld/env/tasks.py``, ``goal_conditions_met``):

    pick_and_place_simple     1  the object is in the receptacle
    look_at_obj_in_light      2  the object is in hand; the agent is at a lamp that was switched on
    pick_{clean,heat,cool}    3  such an object is in the receptacle; one was treated; one is both
    pick_two_obj_and_place    2  the most such objects in one receptacle, up to two

All of them hold exactly if the game is won.
"""

import functools
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from turngrid.envs.alfworld import wheel
from turngrid.envs.alfworld.kinds import LIGHT, TOOLS, TWO, TYPES
from turngrid.envs.alfworld.text import Facts
from turngrid.envs.environment import Rejected

# The state that a treatment leaves, and the property that the object needs.
_STATES = {TYPES[2]: ("isclean", "cleanable"), TYPES[3]: ("ishot", "heatable"), TYPES[4]: ("iscool", "coolable")}
_TOTALS = {LIGHT: 2, TWO: 2}


def demangled(ids: Iterable[str]) -> dict[str, str]:
    """Return the agent's name of each id: ``mug_bar__plus_00_dot_10...`` is "mug 2".

    This is the rule of alfworld's ``Demangler``: objects of a type are numbered, and the last id in
    sorted order gets 1. An id that is no object (agent, type) keeps its text and a trailing space,
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
    """A goal; ``object_type`` and ``target`` are types in lower case.

    ``target`` is the lamp if the object is to be examined under it.
    """

    task_type: str
    object_type: str
    target: str

    @property
    def total(self) -> int:
        return 3 if self.task_type in TOOLS else _TOTALS.get(self.task_type, 1)

    def met(self, facts: Facts) -> int:
        objects = {name for name, kind in facts.get("objecttype", ()) if kind == f"{self.object_type}type"}
        if self.task_type == LIGHT:
            held = any(obj in objects for _, obj in facts.get("holds", ()))
            return held + self._lit(facts)
        wanted = {name for name, kind in facts.get("receptacletype", ()) if kind == f"{self.target}type"}
        placed = [(obj, name) for obj, name in facts.get("inreceptacle", ()) if obj in objects and name in wanted]
        if self.task_type == TWO:
            receptacles = [receptacle for _, receptacle in placed]
            return min(2, max(map(receptacles.count, receptacles), default=0))
        if self.task_type not in TOOLS:
            return int(bool(placed))
        treated = self._treated(facts) & objects
        return bool(placed) + bool(treated) + any(obj in treated for obj, _ in placed)

    def _treated(self, facts: Facts) -> set[str]:
        state, able = _STATES[self.task_type]
        return {obj for (obj,) in facts.get(state, set()) & facts.get(able, set())}

    def _lit(self, facts: Facts) -> bool:
        """Return whether the agent stands at a lamp that was toggled, even if it is off again."""
        here = {spot for _, spot in facts.get("atlocation", ())}
        near = {receptacle for receptacle, spot in facts.get("receptacleatlocation", ()) if spot in here}
        lamps = {obj for obj, kind in facts.get("objecttype", ()) if kind == f"{self.target}type"}
        on = {obj for (obj,) in facts.get("istoggled", set()) & facts.get("toggleable", set())} & lamps
        return any(obj in on and receptacle in near for obj, receptacle in facts.get("inreceptacle", ()))


def wanted(words: str) -> Goal:
    """Read a task's words.

    Raises:
        Rejected: they follow none of alfworld's templates of the six types.
    """
    for task_type, pattern in _templates():
        if match := pattern.fullmatch(words.lower().strip(" .")):
            return Goal(task_type, *match.groups())
    raise Rejected(f"the task follows no template of alfworld: {words!r}")


@functools.cache
def _templates() -> list[tuple[str, re.Pattern[str]]]:
    """Return alfworld's templates; a type is one word, so "put a hot mug in desk" names a mug."""
    word = r"([a-z]+)"
    return [
        (task_type, re.compile(template.format(obj=word, recep=word, toggle=word, mrecep="")))
        for task_type in TYPES
        for template in wheel.goals()[task_type]["templates"]
    ]
