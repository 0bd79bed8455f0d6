"""The words that every text environment shares: a task, what is seen, what a step did.

All of them are frozen and made of plain values, so that they travel between processes as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

TASK_TYPE = "task_type"  # in a step's ``info``, where an environment has types of tasks: success is told by type


class EnvError(RuntimeError):
    """The environment itself failed (a hang, a crash, a broken game file); never the agent's fault."""


class GameStuck(EnvError):
    """The same action brought down two workers in the same way: it would bring down a third."""


class TaskError(ValueError):
    """A task name that its environment does not know; the message names the nearest valid choice."""


@dataclass(frozen=True)
class TaskRef:
    """One playable game, made once by the catalogue.

    ``game_file`` is an absolute path on this machine; ``sha256`` identifies its content anywhere.
    ``expert_plan`` is the expert's plan, replayed to a win before the task is accepted.
    ``fingerprint`` hashes the initial state and the goal, so that two seeds that give the same game are seen as one.
    """

    env: str
    task: str
    params: Mapping[str, Any]
    seed: int
    split: str
    game_file: str
    sha256: str
    goal: str
    expert_plan: tuple[str, ...]
    fingerprint: str
    max_score: float

    @property
    def key(self) -> str:
        """A short name for logs and episode records: ``textworld/w2-o3-q4/30001``."""
        return f"{self.env}/{self.task}/{self.seed}"

    def to_dict(self) -> dict[str, Any]:
        own = {item.name: getattr(self, item.name) for item in fields(self)}  # asdict would copy every value, deeply
        return {**own, "params": dict(self.params), "expert_plan": list(self.expert_plan)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TaskRef:
        return cls(**{**data, "expert_plan": tuple(data["expert_plan"])})


@dataclass(frozen=True)
class Observation:
    """What the agent is shown, and what only scripted policies may see.

    ``legal`` (the commands that the environment would accept now) enters a prompt only where ``prompt.admissible`` asks for it,
    ``expert`` (the rest of an expert plan, where the environment knows one) never.
    """

    text: str
    goal: str = ""
    legal: tuple[str, ...] = ()
    expert: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepResult:
    """What one action did.

    ``score_delta`` is the change of the game's score in this step, in the game's own points.
    ``won`` is success; ``terminated`` also covers a loss; ``truncated`` is a limit of the environment itself.
    ``valid`` is False where the environment did not understand the action, ``parsed`` where there was none to be read
    in the answer.
    """

    observation: Observation
    score_delta: float
    won: bool
    lost: bool
    terminated: bool
    truncated: bool
    valid: bool
    info: Mapping[str, Any] = field(default_factory=dict)
    parsed: bool = True

    @property
    def over(self) -> bool:
        """No further action will be played."""
        return self.won or self.lost or self.terminated or self.truncated
