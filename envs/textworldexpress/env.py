"""Play a game of TextWorldExpress."""

from typing import Any

from turngrid.envs.jvm.env import JvmEnv
from turngrid.envs.text_env import RawStep
from turngrid.envs.textworldexpress.games import Simulator
from turngrid.envs.types import InvalidAction, Observation


class TextWorldExpressEnv(JvmEnv):
    """One game at a time. Its score is the simulator's: 1 if won; 0 if lost, where it has -1."""

    _simulator: Simulator | None = None

    def open_game(self, game: dict[str, Any]) -> str:
        if self._simulator is None or not self._simulator.machine.alive:
            self._simulator = Simulator()
        self._now = self._simulator.load(game["game"], game["options"], game["fold"], game["seed"])
        return self._now.observation

    def clean_action(self, action: str) -> str:
        return super().clean_action(action).lower().rstrip(" .")

    def play(self, command: str) -> RawStep:
        written = {action.lower(): action for action in self._now.validActions}
        if command not in written:
            raise InvalidAction("That does nothing here.")
        assert self._simulator
        now = self._now = self._simulator.step(written[command])
        return RawStep(Observation(now.observation), max(0.0, now.score), now.tasksuccess, now.taskfailure)

    def commands(self) -> tuple[str, ...]:
        return tuple(sorted(set(self._now.validActions)))
