"""ScienceWorld's simulator, its games, and how a task is played.

The package's own wrapper lists all valid actions at each step, so it is not used. Games of one JVM
share its random numbers, the counter of its objects' ids and its simplifications. Here each step
has random numbers of its own, and each game its counter, so that what a game shows depends on its
task, variation and actions alone.
"""

import hashlib
from pathlib import Path
from typing import Any

from turngrid.envs.environment import GameRecord
from turngrid.envs.jvm.machine import REPLAYS, JvmEnv, check_gold, jvm
from turngrid.envs.text_env import RawStep
from turngrid.envs.types import TASK_TYPE, EnvError, Observation

_UNKNOWN = ("No known action matches that input.", "Unknown action.")
Replay = list[tuple[str, int, bool]]


class Simulator:
    """One game at a time."""

    _id: int  # the counter of this game's objects, while another game is active

    def __init__(self) -> None:
        self.machine = jvm("scienceworld", "scienceworld.jar")
        self.machine.ask(self._connect)

    def _connect(self) -> None:
        self._game = self.machine.names.scienceworld.runtime.pythonapi.PythonInterface()
        self._random = self.machine.scala_object("scala.util.Random")
        self._ids = self.machine.scala_object("util.UniqueIdentifier")
        self._routes = self.machine.scala_object("scienceworld.goldagent.PathFinder").precomputedExhaustivePaths()
        self._simplifier = self.machine.scala_object("main.scala.scienceworld.runtime.SimplifierProcessor")

    def load(self, task: str, variation: int, simplifications: str, gold: bool = False) -> str:
        """Start a game; return its goal.

        Args:
            gold: also make the gold path, which takes seconds.
        """
        return self.machine.ask(self._load, task, variation, simplifications, gold)

    def _load(self, task: str, variation: int, simplifications: str, gold: bool) -> str:
        self._leave_other()
        self.machine.active = self
        self._routes.clear()  # else a gold path takes the routes of an earlier game from the same room
        self._random.setSeed(0)
        if error := self._game.load(task, variation, simplifications, gold):
            raise EnvError(f"ScienceWorld does not load {task} {variation}: {error}")
        self._name, self._steps, self._in_use = f"{task} {variation}", 0, self._simplifier.getSimplificationsUsed()
        return str(self._game.getTaskDescription())

    def gold(self) -> list[str]:
        return list(self.machine.ask(self._game.getGoldActionSequence))

    def look(self) -> str:
        """Return what ``look around`` would answer; it takes no time."""
        return self.machine.ask(self._do, self._game.freeActionLook)

    def commands(self) -> tuple[str, ...]:
        """Return all valid commands, which takes long."""
        return tuple(self.machine.ask(self._do, lambda: list(self._game.getValidActionObjectCombinations())))

    def step(self, command: str) -> tuple[str, int, bool]:
        """Return the answer, the score (below 0: failed; 100: won), and whether it is all over."""
        return self.machine.ask(self._do, self._step, command)

    def _step(self, command: str) -> tuple[str, int, bool]:
        self._steps += 1
        draw = hashlib.blake2b(f"{self._name} {self._steps}".encode(), digest_size=6).digest()
        self._random.setSeed(int.from_bytes(draw, "big"))
        answer, score = str(self._game.step(command)), round(100 * self._game.getScore())
        if score < 0 and self._game.agentInterface().get().isInErrorState():
            raise EnvError(f"ScienceWorld failed: {answer}")
        return answer, score, self._game.getCompleted()

    def _do(self, call: Any, *arguments: Any) -> Any:
        if self.machine.active is not self:
            self._leave_other()
            getattr(self._ids, "count_$eq")(self._id)
            self._simplifier.parseSimplificationStr(self._in_use)
            self.machine.active = self
        return call(*arguments)

    def _leave_other(self) -> None:
        if self.machine.active is not None:
            self.machine.active._id = self._ids.count()


def write_game(task: str, variation: int, simplifications: str, turns: int, folder: Path) -> GameRecord:
    """Write a variation's game.

    Raises:
        Rejected: the gold path does not win within ``turns``, or not in every replay.
    """
    simulator = Simulator()
    goal = simulator.load(task, variation, simplifications, gold=True)
    gold = simulator.gold()
    replays = [_replay(simulator, task, variation, simplifications, gold) for _ in range(REPLAYS)]
    plan = tuple(gold[: len(replays[0])])
    check_gold(replays[0][-1][1] if plan else 0, 100, replays, len(plan), turns)
    game = {"task": task, "variation": variation, "simplifications": simplifications, "gold": plan}
    return GameRecord.written(folder, game, goal=goal, expert_plan=plan, max_score=100)


def _replay(simulator: Simulator, task: str, variation: int, simplifications: str, gold: list[str]) -> Replay:
    """Run the gold path until the task is over, after a fresh load."""
    simulator.load(task, variation, simplifications)
    steps: Replay = []
    for command in gold:
        steps.append(simulator.step(command))
        if steps[-1][1] == 100 or steps[-1][1] < 0 or steps[-1][2]:
            break
    return steps


class ScienceWorldEnv(JvmEnv):
    """One variation of a task at a time. Its score is ScienceWorld's; a failed task has 0."""

    banned_verbs = frozenset({"help", "objects", "reset"})
    ends = " ."
    simulator_class = Simulator

    def open_game(self, game: dict[str, Any]) -> str:
        self.simulator.load(game["task"], game["variation"], game["simplifications"])
        return self.simulator.look()

    def play(self, command: str) -> RawStep:
        answer, score, over = self.simulator.step(command)
        won = score == 100
        info, valid = {TASK_TYPE: self._game["task"]}, not answer.startswith(_UNKNOWN)
        return RawStep(Observation(answer), max(0, score), won, score < 0, over, valid=valid, info=info)

    def legal_actions(self) -> tuple[str, ...]:
        return tuple(command for command in self.simulator.commands() if not self.refuses(command))
