"""Play a task of ScienceWorld."""

from typing import Any

from turngrid.envs.jvm.env import JvmEnv
from turngrid.envs.scienceworld.simulator import Simulator, understood
from turngrid.envs.text_env import RawStep
from turngrid.envs.types import Observation


class ScienceWorldEnv(JvmEnv):
    """One variation of a task at a time. Its score is ScienceWorld's; a failed task has 0."""

    banned_verbs = frozenset({"help", "objects", "reset"})
    _simulator: Simulator | None = None

    def open_game(self, game: dict[str, Any]) -> str:
        if self._simulator is None or not self._simulator.machine.alive:
            self._simulator = Simulator()
        self._simulator.load(game["task"], game["variation"], game["simplifications"])
        return self._simulator.look()

    def clean_action(self, action: str) -> str:
        return super().clean_action(action).lower().rstrip(" .")

    def play(self, command: str) -> RawStep:
        assert self._simulator
        answer, score, over = self._simulator.step(command)
        won = score == 100
        return RawStep(Observation(answer), max(0, score), won, score < 0, over, valid=understood(answer))

    def commands(self) -> tuple[str, ...]:
        assert self._simulator
        return tuple(command for command in self._simulator.commands() if not self.refuses(command))
