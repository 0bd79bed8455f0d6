"""Play ALFWorld: alfworld's own texts, ALFRED's goal conditions as the score."""

from typing import Any

from turngrid.envs.alfworld.engine import NOTHING, YOUR_TASK, Engine
from turngrid.envs.alfworld.goal import wanted
from turngrid.envs.text_env import RawStep, TextEnv, accepted_json
from turngrid.envs.types import TASK_TYPE, Observation, TaskRef

_BANNER = "-= Welcome to TextWorld, ALFRED! =-"


class AlfWorldEnv(TextEnv):
    """One game at a time.

    ``info`` of a step: the goal conditions that hold, their total, and the task type.
    """

    ends = " .!\"'"  # commands match exactly

    def __init__(self, settings: Any = None, *, legal: bool = False, expert: bool = False) -> None:
        super().__init__(settings, legal=legal, expert=expert)
        self._engine = Engine()
        self._loaded = ""

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        if self._loaded != task.sha256:
            self._loaded = ""
            self._engine.load(accepted_json(task))
            self._loaded = task.sha256
        introduction = self._engine.reset()
        self._goal = wanted(task.goal)
        self._at_first = self._best = self._goal.met(self._engine.facts)
        self._plan = task.expert_plan
        return self.observe_message(_opening(introduction))

    def step_game(self, command: str) -> RawStep:
        answer = self._engine.step(command)
        won = self._engine.won
        met = self._met(won)
        self._best = max(self._best, met)
        self._plan = self._plan[1:] if self._plan[:1] == (command,) else ()  # valid while the agent follows it
        seen = self.observe_message(NOTHING if answer is None else answer)
        info = {"goal_conditions": met, "goal_conditions_total": self._goal.total, TASK_TYPE: self._goal.task_type}
        score = float(self._best - self._at_first)
        return RawStep(seen, score, won=won, valid=answer is not None, info=info)

    def _met(self, won: bool) -> int:
        """Return the conditions that hold; all of them exactly if the engine reports a win."""
        return self._goal.total if won else min(self._goal.met(self._engine.facts), self._goal.total - 1)

    def legal_actions(self) -> tuple[str, ...]:
        return tuple(sorted(self._engine.commands))

    def expert_actions(self) -> tuple[str, ...]:
        return self._plan

    def close_game(self) -> None:
        self._engine.close()
        self._loaded = ""


def _opening(introduction: str) -> str:
    """Return alfworld's introduction without its banner and its task, which is shown apart."""
    parts = (part.strip() for part in introduction.split("\n\n"))
    return "\n".join(part for part in parts if part and part != _BANNER and not part.startswith(YOUR_TASK))
