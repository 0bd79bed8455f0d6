"""Draw a new game: a floor plan, where objects lie, the task.

All draws come from one ``random.Random`` seeded by a string, so they are the same on every machine.
"""

import functools
import random
from dataclasses import dataclass, field

from turngrid.envs.alfworld import wheel
from turngrid.envs.alfworld.kinds import LIGHT, TOOLS, TWO
from turngrid.envs.environment import Rejected

Spot = tuple[float, float, float, float]  # x, z in metres; rotation and horizon in degrees
# Receptacles that alfworld does not locate are put at a random location; a stove has four burners.
_COPIES = {"StoveBurner": 4}
_GRID_M = 0.25
_HORIZONS = (0, 15, 30, 45, 60)
LAMP = "DeskLamp"
_LAMP_RECEPTACLES = ("Desk", "SideTable", "Dresser", "CoffeeTable", "DiningTable", "Shelf", "TVStand")
# Objects on no receptacle; the simulator has them on walls and floors.
_FIXTURES = ("Chair", "HousePlant", "LightSwitch", "Mirror", "Window")
_NOT_CARRIED = frozenset(
    {
        *_FIXTURES,
        *("StoveKnob", "Faucet", "Blinds", "Curtains", "Painting", "Poster", "ShowerDoor", "ShowerGlass", "ShowerHead"),
        *("Bathtub", "Sink", "Television", "FloorLamp", "DeskLamp"),
    }
)
_EVERYWHERE = ("Book", "CD", "Mug", "Pen")  # small targets in rooms whose list lacks them
_CLUTTER = (10, 24)
_TRIES = 50


@dataclass(frozen=True)
class FloorPlan:
    """A room of the simulator.

    Attributes:
        receptacles: location of each receptacle, both by id.
        types: types of objects found in the room.
        free: points (x, z) to stand on.
    """

    receptacles: dict[str, str]
    types: list[str]
    free: list[tuple[float, float]]

    def of_type(self, kind: str) -> list[str]:
        return [name for name in self.receptacles if receptacle_type(name) == kind]

    def holding(self, kind: str) -> list[str]:
        """Return the receptacles that may hold objects of a type."""
        return [name for name in self.receptacles if kind in holds(receptacle_type(name))]


@dataclass
class Draft:
    """A game before it is written down.

    Attributes:
        goal: type of the goal's receptacle; "" if the goal is the lamp.
        objects: type and receptacle of each object, by id; receptacle None: a fixture.
        words: the task in alfworld's words.
    """

    task_type: str
    layout: FloorPlan
    target: str
    goal: str
    start: str
    objects: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    targets: list[str] = field(default_factory=list)
    lamp: str = ""
    destination: str = ""
    words: str = ""

    def add(self, rng: random.Random, kind: str, receptacle: str | None) -> str:
        """Add an object at a random position; return its id."""
        name = kind + _position(rng)
        while name in self.objects:
            name = kind + _position(rng)
        self.objects[name] = (kind, receptacle)
        return name

    def count(self, kind: str) -> int:
        return sum(other == kind for other, _ in self.objects.values())


def draw(task_type: str, unseen: bool, seed: int) -> Draft:
    """Draw a game of a type.

    Raises:
        Rejected: no drawn floor plan has what the task needs.
    """
    rng = random.Random(f"alfworld/{task_type}/{'unseen' if unseen else 'train'}/{seed}")
    numbers = floor_plans(task_type, unseen)
    for _ in range(_TRIES):
        draft = _draft(rng, task_type, _draw_floor_plan(rng, rng.choice(numbers)))
        if draft is not None:
            return draft
    raise Rejected("no floor plan has what the task needs")


def floor_plans(task_type: str, unseen: bool) -> list[int]:
    """Return the floor plans of a task type: those for training, or the ones held out."""
    constants = wheel.constants()
    rooms = sorted(constants.GOALS_VALID[task_type])
    kept = set(constants.TEST_SCENE_NUMBERS if unseen else constants.TRAIN_SCENE_NUMBERS)
    return [number for room in rooms for number in constants.SCENE_TYPE[room] if number in kept]


def receptacle_type(name: str) -> str:
    """Return an id's type: SinkBasin of ``Sink|+01.00|...|SinkBasin``, Drawer of ``Drawer|...``."""
    parts = name.split("|")
    return parts[-1] if parts[-1].endswith("Basin") else parts[0]


def holds(kind: str) -> frozenset[str]:
    """Return the types of objects that a type of receptacle may hold."""
    return frozenset(wheel.constants().VAL_RECEPTACLE_OBJECTS.get(kind, ()))


def openable(receptacle: str) -> bool:
    return receptacle_type(receptacle) in wheel.constants().OPENABLE_CLASS_SET


@functools.cache
def fixed_receptacles() -> frozenset[str]:
    constants = wheel.constants()
    return frozenset(constants.RECEPTACLES) - frozenset(constants.MOVABLE_RECEPTACLES)


@functools.cache
def carried() -> frozenset[str]:
    """Return the types of whole objects that a receptacle may hold and an agent may carry."""
    constants = wheel.constants()
    held = {kind for kinds in constants.VAL_RECEPTACLE_OBJECTS.values() for kind in kinds}
    return frozenset(kind for kind in held & set(constants.OBJECTS) if not kind.endswith("Sliced")) - _NOT_CARRIED


def _draw_floor_plan(rng: random.Random, number: int) -> FloorPlan:
    located, types, free = _shipped(number)
    receptacles = dict(located)
    present = {receptacle_type(name) for name in receptacles}
    for kind in types:
        if kind in fixed_receptacles() and kind not in present:
            for _ in range(_COPIES.get(kind, 1)):
                receptacles[kind + _position(rng)] = _random_location(rng, free)
    return FloorPlan(dict(sorted(receptacles.items())), types, free)


@functools.lru_cache(maxsize=128)
def _shipped(number: int) -> tuple[dict[str, str], list[str], list[tuple[float, float]]]:
    openable = wheel.layout(number, "openable")
    located = {name: _location(spot) for name, spot in openable.items() if receptacle_type(name) in fixed_receptacles()}
    free = [(float(x), float(z)) for x, z in wheel.layout(number, "layout")]
    return located, sorted(set(wheel.layout(number, "objects"))), free


def _draft(rng: random.Random, task_type: str, layout: FloorPlan) -> Draft | None:
    candidates = _candidates(task_type, layout)
    if not candidates:
        return None
    target, goal = rng.choice(candidates)
    draft = Draft(task_type, layout, target, goal, start="")
    receptacles = _elsewhere(layout, target, goal)
    for _ in range((2 if task_type == TWO else 1) + rng.randrange(2)):
        draft.targets.append(draft.add(rng, target, rng.choice(receptacles)))
    if task_type == LIGHT:
        draft.lamp = draft.add(rng, LAMP, rng.choice(_lamp_receptacles(layout)))
    _add_clutter(rng, draft)
    draft.destination = rng.choice(layout.of_type(goal)) if goal else ""
    draft.start = _start(rng, layout)
    template = rng.choice(wheel.goals()[task_type]["templates"])
    draft.words = template.format(obj=target.lower(), recep=goal.lower(), toggle=LAMP.lower(), mrecep="")
    return draft


def _candidates(task_type: str, layout: FloorPlan) -> list[tuple[str, str]]:
    """Return pairs (object, receptacle type) whose object can start elsewhere and be treated."""
    objects = sorted(carried() & {*layout.types, *_EVERYWHERE})
    if task_type == LIGHT:
        return [(obj, "") for obj in objects if layout.holding(obj)] if _lamp_receptacles(layout) else []
    treatment, tool = TOOLS.get(task_type, ("", ""))
    if tool and not layout.of_type(tool):
        return []
    kinds = sorted({receptacle_type(name) for name in layout.receptacles} - {tool})
    return [
        (obj, kind)
        for obj in objects
        if not treatment or obj in wheel.constants().VAL_ACTION_OBJECTS[f"{treatment.title()}able"]
        for kind in kinds
        if obj in holds(kind) and _elsewhere(layout, obj, kind)
    ]


def _elsewhere(layout: FloorPlan, obj: str, kind: str) -> list[str]:
    return [name for name in layout.holding(obj) if receptacle_type(name) != kind]


def _lamp_receptacles(layout: FloorPlan) -> list[str]:
    return [name for kind in _LAMP_RECEPTACLES for name in layout.of_type(kind)]


def _add_clutter(rng: random.Random, draft: Draft) -> None:
    kinds = [kind for kind in draft.layout.types if kind in carried() and kind != draft.target]
    most = wheel.constants().MAX_NUM_OF_OBJ_INSTANCES
    for _ in range(rng.randint(*_CLUTTER) if kinds else 0):
        kind = rng.choice(kinds)
        receptacles = draft.layout.holding(kind)
        if receptacles and draft.count(kind) < most:
            draft.add(rng, kind, rng.choice(receptacles))
    for kind in _FIXTURES:
        if kind in draft.layout.types:
            draft.add(rng, kind, None)


def _start(rng: random.Random, layout: FloorPlan) -> str:
    """Draw a start at no receptacle, since the first text is that of the middle of a room."""
    while True:
        start = _random_location(rng, layout.free)
        if start not in layout.receptacles.values():
            return start


def _random_location(rng: random.Random, free: list[tuple[float, float]]) -> str:
    x, z = rng.choice(free)
    return _location((x, z, 90 * rng.randrange(4), rng.choice(_HORIZONS)))


def _location(spot: Spot) -> str:
    """Return a location's id as alfworld writes it: grid cells, quarter turns, degrees."""
    x, z, rotation, horizon = spot
    return f"loc|{round(x / _GRID_M)}|{round(z / _GRID_M)}|{round(rotation / 90) % 4}|{round(horizon)}"


def _position(rng: random.Random) -> str:
    """Draw the end of an object's id: x, height and z, in metres."""
    return "".join(f"|{rng.uniform(low, high):+06.2f}" for low, high in ((-3, 3), (0, 2), (-3, 3)))
