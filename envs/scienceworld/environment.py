"""ScienceWorld (Wang et al. 2022): ``env=scienceworld env.task=boil``."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from turngrid.envs.environment import Environment, GameRecord, Params, PromptStyle
from turngrid.envs.functions import CommandFunction
from turngrid.envs.jvm.machine import FOLDS, check_java
from turngrid.envs.scienceworld.env import ScienceWorldEnv, write_game
from turngrid.envs.types import TaskError
from turngrid.envs.utils.names import nearest

# The tasks in the simulator's order: the number of variations of each, and the turns of an episode,
# at least 1.3 times the longest gold path of the variations that were tried.
TASKS = {
    "boil": (30, 250),
    "change-the-state-of-matter-of": (30, 200),
    "chemistry-mix": (32, 80),
    "chemistry-mix-paint-secondary-color": (36, 40),
    "chemistry-mix-paint-tertiary-color": (36, 60),
    "find-animal": (300, 24),
    "find-living-thing": (300, 24),
    "find-non-living-thing": (300, 24),
    "find-plant": (300, 24),
    "freeze": (30, 200),
    "grow-fruit": (126, 150),
    "grow-plant": (126, 120),
    "identify-life-stages-1": (14, 60),
    "identify-life-stages-2": (10, 24),
    "inclined-plane-determine-angle": (168, 240),
    "inclined-plane-friction-named-surfaces": (1386, 160),
    "inclined-plane-friction-unnamed-surfaces": (162, 300),
    "lifespan-longest-lived": (125, 16),
    "lifespan-longest-lived-then-shortest-lived": (125, 16),
    "lifespan-shortest-lived": (125, 16),
    "measure-melting-point-known-substance": (436, 200),
    "measure-melting-point-unknown-substance": (300, 200),
    "melt": (30, 200),
    "mendelian-genetics-known-plant": (120, 240),
    "mendelian-genetics-unknown-plant": (480, 240),
    "power-component": (20, 24),
    "power-component-renewable-vs-nonrenewable-energy": (20, 50),
    "test-conductivity": (900, 60),
    "test-conductivity-of-unknown-substances": (600, 60),
    "use-thermometer": (540, 100),
}
SHORT = (
    "find-non-living-thing",
    "lifespan-longest-lived",
    "find-plant",
    "power-component",
    "lifespan-shortest-lived",
    "find-animal",
    "chemistry-mix-paint-secondary-color",
    "find-living-thing",
    "lifespan-longest-lived-then-shortest-lived",
)
_SETS = {"short": SHORT, "all": tuple(TASKS)}
SIMPLIFICATIONS = ("easy", "teleportAction", "selfWateringFlowerPots", "openContainers", "openDoors")
# The split of each of ten official training variations: train, demonstrations or pretraining.
_SHARES = "tdptdtptdt"
_FUNCTIONS = (
    CommandFunction("look_around", "describe the room", pattern="look around"),
    CommandFunction("look_at", "something", pattern="look at {object}"),
    CommandFunction("look_in", "a container", pattern="look in {object}"),
    CommandFunction("go_to", "a room next to this one", pattern="go to {room}"),
    CommandFunction("teleport_to", "any room, if that is allowed", pattern="teleport to {room}"),
    CommandFunction("open", "a door or container", pattern="open {object}"),
    CommandFunction("close", "a door or container", pattern="close {object}"),
    CommandFunction("pick_up", "into the inventory", pattern="pick up {object}"),
    CommandFunction("put_down", "from the inventory", pattern="put down {object}"),
    CommandFunction("move", "into a container", pattern="move {object} to {container}"),
    CommandFunction("pour", "a liquid into a container", pattern="pour {object} into {container}"),
    CommandFunction("dunk", "a container into a liquid", pattern="dunk {object} into {container}"),
    CommandFunction("mix", "what is in a container", pattern="mix {container}"),
    CommandFunction("focus_on", "what the task asks for", pattern="focus on {object}"),
    CommandFunction("use", "a tool, also on something", pattern="use {tool} on {object}", optional=("object",)),
    CommandFunction("activate", "a device", pattern="activate {object}"),
    CommandFunction("deactivate", "a device", pattern="deactivate {object}"),
    CommandFunction("connect", "electrical parts", pattern="connect {part} to {other}"),
    CommandFunction("disconnect", "an electrical part", pattern="disconnect {part}"),
    CommandFunction("read", "something", pattern="read {object}"),
    CommandFunction("eat", "something", pattern="eat {object}"),
    CommandFunction("flush", "something", pattern="flush {object}"),
    CommandFunction("inventory", "what you carry", pattern="inventory"),
    CommandFunction("task", "the task's description", pattern="task"),
    CommandFunction("wait", "ten steps", pattern="wait"),
    CommandFunction("wait1", "one step", pattern="wait1"),
    CommandFunction("choose", "a number after an ambiguous request", pattern="{number}"),
)
_ACTIONS = (
    "look around, go to PLACE, open THING, pick up THING, move THING to PLACE, use TOOL on THING, focus on THING, wait"
)


@dataclass(frozen=True)
class ScienceWorldSettings:
    simplifications: str  # a list in one string


class ScienceWorld(Environment):
    """The task is one of ScienceWorld's, ``short`` or ``all``. A seed is a task and a variation."""

    name = "scienceworld"
    Env = ScienceWorldEnv
    more_games = "use env.task=all"
    longest_making_s = 600.0  # a gold path of mendelian genetics and its replays, on a busy machine
    package = "scienceworld"
    modules = ("scienceworld", "py4j")
    recipe = 3
    rewards = ("sparse", "dense")
    prompt = PromptStyle(
        "You do experiments in a house of ten rooms.",
        f'Answer with one action, such as "open door to kitchen". Actions: {_ACTIONS}.',
        _FUNCTIONS,
    )
    Settings = ScienceWorldSettings
    examples = (*_SETS, *TASKS)
    settings: ScienceWorldSettings

    def parse_task(self, task: str) -> dict[str, Any]:
        self.check_task(task)
        check_java(self.name)
        for name in filter(None, self.settings.simplifications.split(",")):
            if name not in SIMPLIFICATIONS:
                near = nearest(name, SIMPLIFICATIONS)
                raise TaskError(f"env.simplifications={name} is unknown; use {near} ({', '.join(SIMPLIFICATIONS)})")
        return {"tasks": list(_SETS.get(task, (task,))), "simplifications": self.settings.simplifications}

    def max_turns(self, task: str) -> int:
        return max(TASKS[name][1] for name in self.parse_task(task)["tasks"])

    def seeds(self, params: Params, split: str) -> Sequence[int]:
        """Return the official variations of a split, one of each task by turns."""
        numbers = {name: number for number, name in enumerate(TASKS)}
        columns = [
            [10_000 * numbers[name] + variation for variation in variations(name, split)] for name in params["tasks"]
        ]
        return [seed for seed in chain.from_iterable(zip_longest(*columns)) if seed is not None]

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        number, variation = divmod(seed, 10_000)
        name = list(TASKS)[number]
        return write_game(name, variation, params["simplifications"], TASKS[name][1], folder)


def official(task: str, part: str) -> range:
    """Return the variations of ``train``, ``dev`` or ``test``: a half and two quarters."""
    count = TASKS[task][0]
    quarter = count // 4
    ends = {"train": (0, 2 * quarter), "dev": (2 * quarter, 3 * quarter), "test": (3 * quarter, count)}
    return range(*ends[part])


def variations(task: str, split: str) -> list[int]:
    """Return a split's variations, in an order that mixes them, since neighbours are alike."""
    part = FOLDS.get(split, "train")
    mixed = sorted(official(task, part), key=lambda number: hashlib.sha256(f"{task} {number}".encode()).digest())
    if part != "train":
        return mixed
    return [number for index, number in enumerate(mixed) if _SHARES[index % len(_SHARES)] == split[0]]
