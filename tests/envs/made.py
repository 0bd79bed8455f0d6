"""A seed's game, made in this process as the catalogue's makers do; its play; a process's end."""

import time
from collections.abc import Iterable
from pathlib import Path

import psutil

from turngrid.envs.environment import Environment
from turngrid.envs.text_env import TextEnv
from turngrid.envs.types import Observation, StepResult, TaskRef


def made(environment: Environment, task: str, seed: int, folder: Path, split: str = "test") -> TaskRef:
    """The game of a seed."""
    params = environment.for_split(environment.parse_task(task), split)
    folder.mkdir(parents=True, exist_ok=True)
    record = environment.game_record(params, seed, folder)
    return record.task(environment.name, task, params, seed, split, folder / record.file)


def played(env: TextEnv, task: TaskRef, actions: Iterable[str] | None = None) -> tuple[Observation, list[StepResult]]:
    """The opening, and the results of these actions, by default the expert's."""
    return env.reset(task, 0), [env.step(action) for action in (task.expert_plan if actions is None else actions)]


def gone(pid: int) -> bool:
    """Whether a process ends within 100 s."""
    end = time.monotonic() + 100
    while time.monotonic() < end:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False
