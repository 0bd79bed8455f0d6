"""Types of all text environments: a task, an observation, the result of a step.

They are frozen and made of plain values, so that they can be sent between processes as JSON.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

TASK_TYPE = "task_type"  # key in ``StepResult.info``; success is also reported per task type


class EnvError(RuntimeError):
    """The environment failed: a hang, a crash, a broken game file. Never the agent's fault."""


class GameStuck(EnvError):
    """An action hung or killed two workers, so it is not tried a third time."""


class InvalidAction(ValueError):
    """An action that changes nothing; the message answers the agent.

    Args:
        info: the step's ``StepResult.info``.
    """

    def __init__(self, message: str, **info: Any) -> None:
        super().__init__(message)
        self.info = info


class TaskError(ValueError):
    """A task or setting is unknown to its environment; the message names a choice."""


@dataclass(frozen=True)
class TaskRef:
    """One playable game, made once by the catalogue; its last fields are those of ``GameRecord``.

    ``game_file`` is an absolute path on this machine.
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
        """Name in logs and records: ``textworld/w2-o3-q4/30001``."""
        return f"{self.env}/{self.task}/{self.seed}"

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "params": dict(self.params), "expert_plan": list(self.expert_plan)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(**{**data, "expert_plan": tuple(data["expert_plan"])})


@dataclass(frozen=True)
class Call:
    """A call of a function of the environment; the arguments are JSON values."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return json.dumps({"name": self.name, "arguments": dict(self.arguments)}, ensure_ascii=False)


@dataclass(frozen=True)
class Action:
    """An action: a text, or calls of functions.

    Its text form, ``str(action)``, is what records and expert plans contain: calls in JSON, one a
    line (``turngrid.envs.functions.action_of`` reads them).
    """

    text: str = ""
    calls: tuple[Call, ...] = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self.calls)) or self.text


@dataclass(frozen=True)
class Observation:
    """Text for the agent, and fields that only scripted policies may read.

    Attributes:
        legal: commands accepted now; a prompt lists them only with ``prompt.admissible``.
        expert: the rest of an expert plan, if the environment knows one; never in a prompt.
        results: after calls, the text of each one's result; ``text`` has them all.
        gold: right answers, for scorers only; never in a prompt.
        seat: in a game of several seats, the one that answers; "" in other games, and at the end.
    """

    text: str
    goal: str = ""
    legal: tuple[str, ...] = ()
    expert: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    gold: tuple[str, ...] = ()
    seat: str = ""


@dataclass(frozen=True)
class StepResult:
    """The result of one action.

    Attributes:
        score_delta: change of the game's score, in the game's points.
        won: success; ``terminated`` also covers a loss.
        truncated: the environment's own limit was reached.
        valid: False if the environment did not understand the action.
        parsed: False if the answer contained no action.
        scores: in a game of several seats, the change of each one's score; ``score_delta``, ``won``
            and ``lost`` then stay 0 and False.
    """

    observation: Observation
    score_delta: float
    won: bool = False
    lost: bool = False
    terminated: bool = False
    truncated: bool = False
    valid: bool = True
    info: Mapping[str, Any] = field(default_factory=dict)
    parsed: bool = True
    scores: Mapping[str, float] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        return self.won or self.lost or self.terminated or self.truncated

    @classmethod
    def together(cls, steps: Sequence[Self], text: str) -> Self:
        """Return the results of several actions as one: the last, with all scores and ``text``."""
        return replace(
            steps[-1],
            observation=replace(steps[-1].observation, text=text),
            score_delta=sum(step.score_delta for step in steps),
            valid=all(step.valid for step in steps),
            parsed=any(step.parsed for step in steps),
            info={key: value for step in steps for key, value in step.info.items()},
        )
