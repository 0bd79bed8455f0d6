"""The ``curriculum`` node: fills in values that are ``null``, and checks them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from omegaconf import DictConfig, OmegaConf

from turngrid.config.errors import first
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskError
from turngrid.envs.utils.names import nearest
from turngrid.tasks.budget import BudgetError, allocate_budget
from turngrid.tasks.curriculum import equal_phases, horizon_in_thirds
from turngrid.tasks.mixture import task_weights

NAMES = ("none", "phases", "threshold", "horizon")
OF_TASKS = ("phases", "threshold")


def fill_in(config: DictConfig) -> None:
    """Set phases of equal length or a horizon in thirds, if the option needs one and none is
    given."""
    node, steps = config.curriculum, _steps(config)
    if not steps:
        return
    if node.name == "phases" and node.phases is None:
        node.phases = equal_phases(_tasks(config), steps)
    if node.name == "horizon" and node.horizon is None:
        node.horizon = horizon_in_thirds(config.env.max_turns, steps)


def short_horizon(config: DictConfig) -> str | None:
    """Warn of a task whose expert plan is longer than the first horizon, but not longer than a
    later one.
    """
    horizon, environment = config.curriculum.horizon, make_environment(config.env.name, config.env)
    for task in _tasks(config) if horizon else []:
        plan = environment.optimal_turns(environment.parse_task(task))
        enough = [step for step, turns in horizon.items() if plan and turns >= plan]
        if enough and enough[0] > 1:
            return (
                f"{task} is won in {plan} turns at best and curriculum.horizon allows {horizon[1]} at first: expect no "
                f"wins before step {enough[0]}"
            )
    return None


@first
def refusal(config: DictConfig) -> Iterator[str]:
    node, steps, tasks = config.curriculum, _steps(config), _tasks(config)
    if node.name not in NAMES:
        yield f"curriculum.name={node.name} must be one of: {', '.join(NAMES)}"
    if node.name != "none" and steps == 0:
        yield f"curriculum={node.name} orders RL steps, and budget={config.budget.name} has none"
    if node.name in OF_TASKS and len(tasks) < 2:
        yield f"curriculum={node.name} goes from task to task: name them from simple to complex, as env.tasks=[a,b]"
    yield from _without_effect(node)
    yield from _shapes(node)
    if node.phases:
        yield from _schedule("phases", list(node.phases), steps)
        yield from _phases(node.phases, tasks)
    if node.horizon:
        yield from _schedule("horizon", list(node.horizon), steps)
        yield from _turns(list(node.horizon.values()), config.env.max_turns)


def _without_effect(node: DictConfig) -> Iterator[str]:
    if node.phases is not None and node.name != "phases":
        yield f"curriculum.phases does nothing with curriculum={node.name}; choose curriculum=phases"
    if node.horizon is not None and node.name == "none":
        yield "curriculum.horizon does nothing with curriculum=none; choose curriculum=horizon"


def _shapes(node: DictConfig) -> Iterator[str]:
    """Yield keys that are not a mapping by step. Their type is Any, since Hydra cannot replace a
    typed mapping.
    """
    plain: Any = OmegaConf.to_container(OmegaConf.create({"phases": node.phases, "horizon": node.horizon}))
    for key, kind, example in (("phases", list, "{1: [a], 10: [a, b]}"), ("horizon", int, "{1: 4, 9: 8}")):
        given = plain[key]
        steps = given if isinstance(given, dict) else {}
        words = [name for names in steps.values() if isinstance(names, list) for name in names]
        fits = steps and all(type(step) is int and type(value) is kind for step, value in steps.items())
        if given is not None and not (fits and all(isinstance(word, str) for word in words)):
            yield f"curriculum.{key}={given} must be a mapping from steps, such as {example}"


def _schedule(key: str, begins: Sequence[int], steps: int) -> Iterator[str]:
    words = ", ".join(map(str, begins))
    if begins[0] != 1:
        yield f"curriculum.{key} must say what step 1 does; its steps are {words}"
    if any(after <= before for before, after in pairwise(begins)):
        yield f"curriculum.{key}: the steps must rise; they are {words}"
    if begins[-1] > steps:
        yield f"curriculum.{key}: step {begins[-1]} never comes, since training has {steps} steps (budget.rl_steps)"


def _phases(phases: Mapping[int, Sequence[str]], tasks: Sequence[str]) -> Iterator[str]:
    for step, names in phases.items():
        if not names:
            yield f"curriculum.phases: no task at step {step}"
        for name in names:
            if name not in tasks:
                yield f"curriculum.phases: {name} is no task of env.tasks; did you mean {nearest(name, tasks)}?"
    unused = [task for task in tasks if not any(task in names for names in phases.values())]
    if unused:
        yield f"curriculum.phases never plays {unused[0]}; leave it out of env.tasks"


def _turns(turns: Sequence[int], most: int) -> Iterator[str]:
    words = ", ".join(map(str, turns))
    if min(turns) < 1 or max(turns) > most:
        yield f"curriculum.horizon: turns must lie between 1 and env.max_turns={most}; they are {words}"
    if any(after < before for before, after in pairwise(turns)):
        yield f"curriculum.horizon: turns must not fall; they are {words}"


def _steps(config: DictConfig) -> int:
    try:
        return allocate_budget(config).steps
    except BudgetError:  # an earlier check refuses it
        return 0


def _tasks(config: DictConfig) -> list[str]:
    try:
        return list(task_weights(config.env))
    except TaskError:  # an earlier check refuses it
        return []
