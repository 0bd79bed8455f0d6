"""TextWorldExpress (Jansen and Cote 2022): ``env=textworldexpress env.task=coin``.

Only processes that make or play games start a JVM.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turngrid.envs.environment import Environment, GameRecord, Params, PromptStyle
from turngrid.envs.functions import CommandFunction
from turngrid.envs.jvm.machine import check
from turngrid.envs.text_env import TextEnv
from turngrid.envs.textworldexpress.env import TextWorldExpressEnv, made
from turngrid.envs.types import TaskError
from turngrid.envs.utils.names import nearest

_ROOMS = {"includeDoors": (0, 1), "limitInventorySize": (0, 1)}
# Options of each game with their smallest and largest values, as the simulator checks them.
OPTIONS: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "cookingworld": {"numLocations": (1, 11), "numIngredients": (1, 5), "numDistractorItems": (0, 10), **_ROOMS},
    "twc": {"numLocations": (1, 3), "numItemsToPutAway": (1, 4), **_ROOMS},
    "coin": {"numLocations": (1, 11), "numDistractorItems": (0, 10), **_ROOMS},
    "mapreader": {
        "numLocations": (1, 50),
        "maxDistanceApart": (1, 8),
        "maxDistractorItemsPerLocation": (0, 3),
        **_ROOMS,
    },
    "arithmetic": {},
    "sorting": {},
    "simonsays": {"gameLength": (1, 50), "numDistractors": (0, 5), "memorization": (0, 1)},
    "peckingorder": {},
}
# At least 1.3 times the longest of 100 gold paths with the simulator's own options.
_TURNS = {"cookingworld": 150, "twc": 40, "coin": 50, "mapreader": 24, "sorting": 16, "peckingorder": 16}
_FOLDS = {"test": "test", "test_paper": "test", "validation": "dev"}
_FUNCTIONS = (
    CommandFunction("look_around", "describe the room", pattern="look around"),
    CommandFunction("inventory", "what you carry", pattern="inventory"),
    CommandFunction("move", "north, south, east or west", pattern="move {direction}"),
    CommandFunction("open_door", "to a direction", pattern="open door to {direction}"),
    CommandFunction("close_door", "to a direction", pattern="close door to {direction}"),
    CommandFunction("put", "what you carry into a container", pattern="put {object} in {container}"),
    CommandFunction("cook", "with a device", pattern="cook {object} in {device}"),
    *(
        CommandFunction(verb, "an object", pattern=f"{verb} {{object}}")
        for verb in ("take", "open", "close", "examine", "read", "eat", "drink", "chop", "slice", "dice", "touch")
    ),
    CommandFunction("prepare_meal", "once you have all ingredients", pattern="prepare meal"),
    CommandFunction("task", "the task's description", pattern="task"),
    CommandFunction("act", "any other action, in words", pattern="{action}"),
)


@dataclass(frozen=True)
class TextWorldExpressSettings:
    """Keys of ``env`` for ``env=textworldexpress``; ``options`` are numbers by name."""

    options: dict[str, Any] | None


class TextWorldExpress(Environment):
    """The task is a game's name."""

    name = "textworldexpress"
    more_games = "use larger env.options"
    package = "textworld-express"
    rewards = ("sparse", "dense")
    prompt = PromptStyle(
        "You are in a small world of text.",
        'Answer with one action, such as "take apple", "open door to north" or "move north".',
        _FUNCTIONS,
    )
    Settings = TextWorldExpressSettings
    examples = tuple(OPTIONS)
    lists_actions = True
    settings: TextWorldExpressSettings

    def parse_task(self, task: str) -> dict[str, Any]:
        if task not in self.examples:
            near = nearest(str(task), self.examples)
            raise TaskError(f"unknown task {task!r} of textworldexpress; use {near} ({', '.join(self.examples)})")
        check("textworldexpress", "textworld_express")
        options = dict(self.settings.options or {})
        for name, value in options.items():
            _check_option(task, name, value)
        return {"game": task, "options": options, "turns": _turns(task, options)}

    def max_turns(self, task: str) -> int:
        return int(self.parse_task(task)["turns"])

    def for_split(self, params: Params, split: str) -> dict[str, Any]:
        """Add the simulator's fold, whose objects and numbers no other has."""
        return {**params, "fold": _FOLDS.get(split, "train")}

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        return made(params, seed, folder)

    def env(self, *, legal: bool = False, expert: bool = False) -> TextEnv:
        return TextWorldExpressEnv(legal=legal, expert=expert)


def _check_option(task: str, name: str, value: Any) -> None:
    known = OPTIONS[task]
    if name not in known:
        use = f"use one of {', '.join(known)}" if known else "use env.options=null"
        raise TaskError(f"env.options={{{name}: {value}}}: {task} has no such option; {use}")
    low, high = known[name]
    if type(value) is not int or not low <= value <= high:
        raise TaskError(f"env.options={{{name}: {value}}} must be from {low} to {high}")


def _turns(task: str, options: Mapping[str, int]) -> int:
    return max(_TURNS.get(task, 12), 2 * options.get("gameLength", 0))
