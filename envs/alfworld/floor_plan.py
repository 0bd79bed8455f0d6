"""A room of the simulator: its receptacles, where one stands to reach them, the types of things found in it."""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass

from envs.alfworld import wheel

Spot = tuple[float, float, float, float]  # x, z in metres, rotation and horizon in degrees
# Receptacles that the wheel's list of openable ones leaves out are put somewhere in the room; stoves have four burners.
_COPIES = {"StoveBurner": 4}
_GRID_M = 0.25
_HORIZONS = (0, 15, 30, 45, 60)


@dataclass(frozen=True)
class FloorPlan:
    """``receptacles`` maps each receptacle's id to its location's id; ``free`` are points (x, z) to stand on."""

    number: int
    receptacles: dict[str, str]
    types: list[str]
    free: list[tuple[float, float]]

    def of_type(self, kind: str) -> list[str]:
        return [name for name in self.receptacles if receptacle_type(name) == kind]

    def holding(self, kind: str) -> list[str]:
        """The receptacles that may hold things of this type."""
        return [name for name in self.receptacles if kind in holds(receptacle_type(name))]


def receptacle_type(name: str) -> str:
    """``Sink|+01.00|...|SinkBasin`` is a SinkBasin, ``Drawer|...`` a Drawer."""
    parts = name.split("|")
    return parts[-1] if parts[-1].endswith("Basin") else parts[0]


def holds(kind: str) -> frozenset[str]:
    """The types of things that a type of receptacle may hold."""
    return frozenset(wheel.constants().VAL_RECEPTACLE_OBJECTS.get(kind, ()))


@functools.cache
def fixed_receptacles() -> frozenset[str]:
    constants = wheel.constants()
    return frozenset(constants.RECEPTACLES) - frozenset(constants.MOVABLE_RECEPTACLES)


def draw(rng: random.Random, number: int) -> FloorPlan:
    """The floor plan, with what the wheel does not locate put where ``rng`` says."""
    known, types, free = _shipped(number)
    receptacles = dict(known)
    there = {receptacle_type(name) for name in receptacles}
    for kind in types:
        if kind in fixed_receptacles() and kind not in there:
            for _ in range(_COPIES.get(kind, 1)):
                receptacles[kind + position(rng)] = random_spot(rng, free)
    return FloorPlan(number, dict(sorted(receptacles.items())), types, free)


@functools.lru_cache(maxsize=128)
def _shipped(number: int) -> tuple[dict[str, str], list[str], list[tuple[float, float]]]:
    openable = wheel.layout(number, "openable")
    known = {name: location(spot) for name, spot in openable.items() if receptacle_type(name) in fixed_receptacles()}
    free = [(float(x), float(z)) for x, z in wheel.layout(number, "layout")]
    return known, sorted(set(wheel.layout(number, "objects"))), free


def random_spot(rng: random.Random, free: list[tuple[float, float]]) -> str:
    x, z = rng.choice(free)
    return location((x, z, 90 * rng.randrange(4), rng.choice(_HORIZONS)))


def location(spot: Spot) -> str:
    """A location's id as alfworld writes it: grid cells, quarter turns, degrees."""
    x, z, rotation, horizon = spot
    return f"loc|{round(x / _GRID_M)}|{round(z / _GRID_M)}|{round(rotation / 90) % 4}|{round(horizon)}"


def position(rng: random.Random) -> str:
    """The tail of a thing's id: x, height and z, in metres."""
    return "".join(f"|{rng.uniform(low, high):+06.2f}" for low, high in ((-3, 3), (0, 2), (-3, 3)))


def numbers(task_type: str, unseen: bool) -> list[int]:
    """The floor plans in which a task type is played: those for training, or those kept apart."""
    constants = wheel.constants()
    rooms = sorted(constants.GOALS_VALID[task_type])
    kept = set(constants.TEST_SCENE_NUMBERS if unseen else constants.TRAIN_SCENE_NUMBERS)
    return [number for room in rooms for number in constants.SCENE_TYPE[room] if number in kept]
