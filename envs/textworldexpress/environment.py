"""TextWorldExpress (Jansen and Cote 2022): ``env=textworldexpress env.task=coin``."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from turngrid.envs.environment import Environment, GameRecord, Params, PromptStyle, facts_hash
from turngrid.envs.functions import CommandFunction
from turngrid.envs.jvm.machine import FOLDS, REPLAYS, JvmEnv, check_gold, check_java, jvm
from turngrid.envs.text_env import RawStep
from turngrid.envs.types import EnvError, InvalidAction, Observation, TaskError

_ATTEMPTS = 50  # as in the simulator
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


class Step(msgspec.Struct):
    """Answer of the simulator."""

    observation: str
    score: float
    tasksuccess: bool
    taskfailure: bool
    validActions: list[str]

    @property
    def over(self) -> bool:
        return self.tasksuccess or self.taskfailure


class Simulator:
    """One game at a time."""

    def __init__(self) -> None:
        self.machine = jvm("textworld_express", "textworld-express.jar")
        self.machine.ask(self._connect)

    def _connect(self) -> None:
        self._game = self.machine.names.textworldexpress.runtime.PythonInterface()

    def load(self, game: str, options: Mapping[str, int], fold: str, seed: int) -> Step:
        written = ",".join(f"{name}={value}" for name, value in options.items())
        if error := self.machine.ask(self._game.load, game, written):
            raise EnvError(f"TextWorldExpress does not load {game} {written}: {error}")
        return msgspec.json.decode(self.machine.ask(self._game.generateNewGameJSON, seed, fold, False), type=Step)

    def goal(self) -> str:
        return " ".join(self.machine.ask(self._game.getTaskDescription).split())

    def gold(self, game: Mapping[str, Any]) -> list[str]:
        """Return the path of the simulator's gold agent, which explores by chance; [] if it fails.

        Its random numbers are the seed's, so that a seed has the same path in each process.
        """
        self.load(**game)
        return self.machine.ask(self._path, game["seed"], game["fold"])

    def _path(self, seed: int, fold: str) -> list[str]:
        names, draws = self.machine.names, self.machine.names.scala.util.Random(seed)
        for _ in range(_ATTEMPTS):
            game = self._game.gameGenerator().mkGame(seed, fold)
            agent = f"{game.getClass().getSimpleName().removesuffix('Game')}GoldAgent"
            path = getattr(names.textworldexpress.goldagent, agent)(game).mkGoldPath(draws)
            if path._1():
                return [str(action) for action in path._2()]
        return []

    def step(self, command: str) -> Step:
        return msgspec.json.decode(self.machine.ask(self._game.stepJSON, command), type=Step)


def _replay(simulator: Simulator, game: Mapping[str, Any], gold: list[str]) -> tuple[list[str], list[Step]]:
    """Run the gold path after a fresh load; skip a command that is not valid at its turn."""
    seen, plan = [simulator.load(**game)], []
    for command in gold:
        if command in seen[-1].validActions and not seen[-1].over:
            seen.append(simulator.step(command))
            plan.append(command)
    return plan, seen


class TextWorldExpressEnv(JvmEnv):
    """One game at a time. Its score is the simulator's: 1 if won; 0 if lost, where it has -1."""

    ends = " ."
    simulator_class = Simulator

    def open_game(self, game: dict[str, Any]) -> str:
        self._now = self.simulator.load(game["game"], game["options"], game["fold"], game["seed"])
        return self._now.observation

    def play(self, command: str) -> RawStep:
        written = {action.lower(): action for action in self._now.validActions}
        if command not in written:
            raise InvalidAction("That does nothing here.")
        now = self._now = self.simulator.step(written[command])
        return RawStep(Observation(now.observation), max(0.0, now.score), now.tasksuccess, now.taskfailure)

    def legal_actions(self) -> tuple[str, ...]:
        return tuple(sorted(set(self._now.validActions)))


@dataclass(frozen=True)
class TextWorldExpressSettings:
    options: dict[str, Any] | None


class TextWorldExpress(Environment):
    """The task is a game's name."""

    name = "textworldexpress"
    Env = TextWorldExpressEnv
    more_games = "use larger env.options"
    package = "textworld-express"
    modules = ("textworld_express", "py4j")
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
        self.check_task(task)
        check_java(self.name)
        options = dict(self.settings.options or {})
        for name, value in options.items():
            _check_option(task, name, value)
        turns = max(_TURNS.get(task, 12), 2 * options.get("gameLength", 0))
        return {"game": task, "options": options, "turns": turns}

    def max_turns(self, task: str) -> int:
        return int(self.parse_task(task)["turns"])

    def for_split(self, params: Params, split: str) -> dict[str, Any]:
        """Add the simulator's fold, whose objects and numbers no other has."""
        return {**params, "fold": FOLDS.get(split, "train")}

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        """Write a seed's game; reject it if a replay of the gold path does not win in time."""
        game = {"game": params["game"], "options": dict(params["options"]), "fold": params["fold"], "seed": seed}
        simulator = Simulator()
        gold = simulator.gold(game)
        first = simulator.load(**game)
        replays = [_replay(simulator, game, gold) for _ in range(REPLAYS)]
        plan, seen = replays[0]
        check_gold(seen[-1].score, 1, replays, len(plan), params["turns"])
        facts = [game["game"], game["options"], simulator.goal(), first.observation, sorted(first.validActions), plan]
        about = {"goal": simulator.goal(), "expert_plan": tuple(plan), "fingerprint": facts_hash(facts)}
        return GameRecord.written(folder, {**game, "gold": plan}, sort_keys=True, **about)


def _check_option(task: str, name: str, value: Any) -> None:
    known = OPTIONS[task]
    if name not in known:
        use = f"use one of {', '.join(known)}" if known else "use env.options=null"
        raise TaskError(f"env.options={{{name}: {value}}}: {task} has no such option; {use}")
    low, high = known[name]
    if type(value) is not int or not low <= value <= high:
        raise TaskError(f"env.options={{{name}: {value}}} must be from {low} to {high}")
