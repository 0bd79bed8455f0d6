"""The ``curriculum`` node: fills in values that are ``null``, and checks them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from turngrid.envs.utils.names import nearest
from turngrid.tasks.budget import BudgetError
from turngrid.tasks.curriculum import equal_phases, horizon_in_thirds
from turngrid.tasks.mixture import task_weights
from turngrid.tasks.run import Run

OF_TASKS = ("phases", "threshold")
OF_ONE = {  # keys that one option reads: that option, and the key's default
    "phases": ("phases", None),
    "threshold": ("threshold", 0.7),
    "window": ("threshold", 3),
    "keep": ("threshold", False),
}


def fill_in(config: DictConfig) -> None:
    """Set phases of equal length or a horizon in thirds, if the option needs one."""
    node, steps = config.curriculum, _steps(Run(config))
    if not steps:
        return
    if node.name == "phases" and node.phases is None:
        node.phases = equal_phases(list(task_weights(config.env)), steps)
    if node.name == "horizon" and node.horizon is None:
        node.horizon = horizon_in_thirds(config.env.max_turns, steps)


def bad_curriculum(run: Run) -> Iterator[str]:
    config = run.config
    node, steps, tasks = config.curriculum, _steps(run), list(task_weights(config.env))
    if node.name != "none" and steps == 0:
        yield f"curriculum={node.name}: budget={config.budget.name} has no RL steps to order; use curriculum=none"
    if node.name in OF_TASKS and len(tasks) < 2:
        yield f"curriculum={node.name}: it goes from task to task; use env.tasks=[a,b], from simple to complex"
    for key, (option, default) in OF_ONE.items():
        if node[key] != default and node.name != option:
            yield f"curriculum.{key}: curriculum={node.name} does not read it; use curriculum={option}"
    if node.name == "threshold" and steps <= (soonest := (changes := len(tasks) - 1) * node.window):
        reason = f"{tasks[-1]} comes after step {soonest} at the soonest, and budget.rl_steps={steps}"
        use = f"curriculum.window={(steps - 1) // changes}" if steps > changes else "fewer tasks or more steps"
        yield f"curriculum.window={node.window}: {reason}; use {use}"
    if node.horizon is not None and node.name == "none":
        yield "curriculum.horizon: curriculum=none does not read it; use curriculum=horizon"
    yield from _bad_steps("phases", node.phases, list, "{1: [a], 10: [a, b]}", steps)
    yield from _bad_steps("horizon", node.horizon, int, "{1: 4, 9: 8}", steps)
    yield from _bad_phases(node.phases or {}, tasks)
    turns, most = list((node.horizon or {}).values()), config.env.max_turns
    if any(not 1 <= number <= most for number in turns) or turns != sorted(turns):
        shown = ", ".join(map(str, turns))
        yield f"curriculum.horizon: the turns are {shown}; use rising ones from 1 to env.max_turns={most}"


def _bad_steps(key: str, given: Any, kind: type, example: str, steps: int) -> Iterator[str]:
    """Check a mapping by step, which is Any in the schema: Hydra cannot replace a typed mapping."""
    plain: Any = OmegaConf.to_container(given) if OmegaConf.is_config(given) else given
    if plain is None:
        return
    values = plain.values() if isinstance(plain, dict) else [None]
    words = [name for value in values if isinstance(value, list) for name in value]
    fits = plain and all(type(value) is kind for value in values) and all(isinstance(word, str) for word in words)
    if not fits or not all(type(step) is int for step in plain):
        yield f"curriculum.{key}={given}: it must map steps; use curriculum.{key}={example}"
    begins, shown = list(plain), ", ".join(map(str, plain))
    if begins[0] != 1 or begins != sorted({*begins}):
        yield f"curriculum.{key}: the steps are {shown}; use 1 first, then larger and larger ones"
    if begins[-1] > steps:
        yield f"curriculum.{key}: step {begins[-1]} never comes; use steps up to budget.rl_steps={steps}"


def _bad_phases(phases: Mapping[int, Sequence[str]], tasks: Sequence[str]) -> Iterator[str]:
    scheduled = [name for names in phases.values() for name in names]
    for step, names in phases.items():
        if not names:
            yield f"curriculum.phases: no task at step {step}; use one at least"
    for name in (name for name in scheduled if name not in tasks):
        yield f"curriculum.phases: {name} is no task of env.tasks; use {nearest(name, tasks)}"
    if phases and (unused := [task for task in tasks if task not in scheduled]):
        yield f"curriculum.phases: it never samples {unused[0]}; leave that out of env.tasks"


def _steps(run: Run) -> int:
    try:
        return run.allocation.steps
    except BudgetError:  # an earlier check refuses it
        return 0
