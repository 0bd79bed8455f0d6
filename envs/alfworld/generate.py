"""Drawing a new game: a floor plan, what lies where, the task.

Everything is drawn from one ``random.Random`` seeded by a string, whose numbers are the same on every machine.
"""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass, field

from envs.alfworld import floor_plan, wheel
from envs.alfworld.floor_plan import FloorPlan
from envs.alfworld.kinds import LIGHT, TOOLS, TWO
from envs.environment import Rejected

LAMP = "DeskLamp"
_LAMP_PLACES = ("Desk", "SideTable", "Dresser", "CoffeeTable", "DiningTable", "Shelf", "TVStand")
# Found in a room but on no receptacle; the simulator has them on walls and floors.
_FIXTURES = ("Chair", "HousePlant", "LightSwitch", "Mirror", "Window")
_NOT_CARRIED = frozenset(
    {
        *_FIXTURES,
        *("StoveKnob", "Faucet", "Blinds", "Curtains", "Painting", "Poster", "ShowerDoor", "ShowerGlass", "ShowerHead"),
        *("Bathtub", "Sink", "Television", "FloorLamp", "DeskLamp"),
    }
)
_EVERYWHERE = ("Book", "CD", "Mug", "Pen")  # small things that are wanted in rooms whose list lacks them
_CLUTTER = (10, 24)
_TRIES = 50


@dataclass
class Draft:
    """A game before it is written down. ``things`` maps each id to its type and its receptacle (None: a fixture)."""

    task_type: str
    layout: FloorPlan
    target: str
    goal: str  # the receptacle's type; "" where the lamp is the goal
    start: str
    things: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    targets: list[str] = field(default_factory=list)
    lamp: str = ""
    destination: str = ""
    words: str = ""

    def add(self, rng: random.Random, kind: str, receptacle: str | None) -> str:
        name = kind + floor_plan.position(rng)
        while name in self.things:
            name = kind + floor_plan.position(rng)
        self.things[name] = (kind, receptacle)
        return name

    def count(self, kind: str) -> int:
        return sum(other == kind for other, _ in self.things.values())


def draw(task_type: str, unseen: bool, seed: int) -> Draft:
    """A game of this type.

    Raises:
        Rejected: no floor plan that was drawn has what the task needs.
    """
    rng = random.Random(f"alfworld/{task_type}/{'unseen' if unseen else 'train'}/{seed}")
    numbers = floor_plan.numbers(task_type, unseen)
    for _ in range(_TRIES):
        draft = _draft(rng, task_type, floor_plan.draw(rng, rng.choice(numbers)))
        if draft is not None:
            return draft
    raise Rejected("no floor plan has what the task needs")


def _draft(rng: random.Random, task_type: str, layout: FloorPlan) -> Draft | None:
    candidates = _candidates(task_type, layout)
    if not candidates:
        return None
    target, goal = rng.choice(candidates)
    draft = Draft(task_type, layout, target, goal, start="")
    places = _elsewhere(layout, target, goal)
    for _ in range((2 if task_type == TWO else 1) + rng.randrange(2)):
        draft.targets.append(draft.add(rng, target, rng.choice(places)))
    if task_type == LIGHT:
        draft.lamp = draft.add(rng, LAMP, rng.choice(_lamp_places(layout)))
    _place_clutter(rng, draft)
    draft.destination = rng.choice(layout.of_type(goal)) if goal else ""
    draft.start = _start(rng, layout)
    template = rng.choice(wheel.goals()[task_type]["templates"])
    draft.words = template.format(obj=target.lower(), recep=goal.lower(), toggle=LAMP.lower(), mrecep="")
    return draft


def _candidates(task_type: str, layout: FloorPlan) -> list[tuple[str, str]]:
    """The pairs (thing, receptacle type) that make a task: the thing can lie elsewhere at first, and be treated."""
    things = sorted(carried() & {*layout.types, *_EVERYWHERE})
    if task_type == LIGHT:
        return [(thing, "") for thing in things if layout.holding(thing)] if _lamp_places(layout) else []
    treatment, tool = TOOLS.get(task_type, ("", ""))
    if tool and not layout.of_type(tool):
        return []
    kinds = sorted({floor_plan.receptacle_type(name) for name in layout.receptacles} - {tool})
    return [
        (thing, kind)
        for thing in things
        if not treatment or thing in wheel.constants().VAL_ACTION_OBJECTS[f"{treatment.title()}able"]
        for kind in kinds
        if thing in floor_plan.holds(kind) and _elsewhere(layout, thing, kind)
    ]


def _elsewhere(layout: FloorPlan, thing: str, kind: str) -> list[str]:
    return [name for name in layout.holding(thing) if floor_plan.receptacle_type(name) != kind]


def _lamp_places(layout: FloorPlan) -> list[str]:
    return [name for kind in _LAMP_PLACES for name in layout.of_type(kind)]


def _place_clutter(rng: random.Random, draft: Draft) -> None:
    kinds = [kind for kind in draft.layout.types if kind in carried() and kind != draft.target]
    most = wheel.constants().MAX_NUM_OF_OBJ_INSTANCES
    for _ in range(rng.randint(*_CLUTTER) if kinds else 0):
        kind = rng.choice(kinds)
        places = draft.layout.holding(kind)
        if places and draft.count(kind) < most:
            draft.add(rng, kind, rng.choice(places))
    for kind in _FIXTURES:
        if kind in draft.layout.types:
            draft.add(rng, kind, None)


def _start(rng: random.Random, layout: FloorPlan) -> str:
    """Somewhere in the room, at no receptacle: the first text is that of the middle of a room."""
    while True:
        start = floor_plan.random_spot(rng, layout.free)
        if start not in layout.receptacles.values():
            return start


@functools.cache
def carried() -> frozenset[str]:
    """The types of things that a receptacle may hold and a hand may carry, whole."""
    constants = wheel.constants()
    held = {kind for kinds in constants.VAL_RECEPTACLE_OBJECTS.values() for kind in kinds}
    return frozenset(kind for kind in held & set(constants.OBJECTS) if not kind.endswith("Sliced")) - _NOT_CARRIED


def openable(receptacle: str) -> bool:
    return floor_plan.receptacle_type(receptacle) in wheel.constants().OPENABLE_CLASS_SET
