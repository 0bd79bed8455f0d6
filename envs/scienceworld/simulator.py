"""ScienceWorld's simulator: a game, without the wrapper's lists of all valid actions at each step.

Games of one JVM share its random numbers, the counter of its objects' ids and its simplifications.
Here each step has random numbers of its own, and each game its counter, so that what a game shows
depends on its task, variation and actions alone.
"""

import hashlib
from typing import Any

from turngrid.envs.jvm.machine import Jvm, jar, jvm
from turngrid.envs.types import EnvError

JAR = ("scienceworld", "scienceworld.jar")
_UNKNOWN = ("No known action matches that input.", "Unknown action.")


def understood(answer: str) -> bool:
    return not answer.startswith(_UNKNOWN)


class Simulator:
    """One game at a time.

    Raises:
        JvmGone: in each method, if the JVM died.
    """

    _id: int  # the counter of this game's objects, while another game is active

    def __init__(self, machine: Jvm | None = None) -> None:
        self.machine = machine or jvm(jar(*JAR))
        self.machine.ask(self._connect)

    def _connect(self) -> None:
        self._game = self.machine.names.scienceworld.runtime.pythonapi.PythonInterface()
        self._random = self.machine.scala_object("scala.util.Random")
        self._ids = self.machine.scala_object("util.UniqueIdentifier")
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
        if error := self._game.load(task, variation, simplifications, gold):
            raise EnvError(f"ScienceWorld does not load {task} {variation}: {error}")
        self._name, self._steps, self._in_use = f"{task} {variation}", 0, self._simplifier.getSimplificationsUsed()
        return str(self._game.getTaskDescription())

    def gold(self) -> list[str]:
        """Return the gold path that ``load`` made."""
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
