"""Checks of the nodes ``env``, ``turn_reward`` and ``eval``."""

from __future__ import annotations

from collections.abc import Iterator

from omegaconf import DictConfig

from turngrid.config.errors import first
from turngrid.config.finalise import explained
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskError
from turngrid.rewards.registry import REWARDS, reward
from turngrid.tasks.evaluation_sets import env_node, own, tested, turns_of
from turngrid.tasks.mixture import task_weights


def unknown_task(config: DictConfig) -> str | None:
    try:
        for task in task_weights(config.env):
            make_environment(config.env.name, config.env).parse_task(task)
    except TaskError as error:
        return explained(error, config.env)
    return None


def reward_not_offered(config: DictConfig) -> str | None:
    environment, name = make_environment(config.env.name, config.env), config.turn_reward.name
    if name in environment.rewards or name not in REWARDS:  # a user's own reward may read anything
        return None
    return f"env={config.env.name} does not offer reward={name}; it offers: {', '.join(environment.rewards)}"


def bad_reward_settings(config: DictConfig) -> str | None:
    return getattr(reward(config.turn_reward.name, config.turn_reward), "problem", str)() or None


def step_deadline(config: DictConfig) -> str | None:
    longest, deadline = make_environment(config.env.name, config.env).longest_step_s, config.env.step_deadline_s
    if deadline > longest:
        return None
    because = ", as env.tests_deadline_s says" if "tests_deadline_s" in config.env else ""
    return (
        f"env.step_deadline_s={deadline:g} is no more than the {longest:g} s "
        f"that one step of this environment may take{because}: raise it"
    )


def bad_window(config: DictConfig) -> str | None:
    turns, keep = config.env.window_turns, config.env.window_keep
    if turns is None:
        return None if keep is None else f"env.window_keep={keep} needs env.window_turns"
    if keep is not None and keep >= turns:
        return f"env.window_keep={keep} must lie between 0 and env.window_turns - 1 = {turns - 1}"
    return None


def equal_rewards(config: DictConfig) -> str | None:
    if config.turn_reward.name not in ("dense", "balanced"):
        return None
    place, tasks = make_environment(config.env.name, config.env), list(task_weights(config.env))
    params = [place.with_reward(place.parse_task(task), config.turn_reward.name) for task in tasks]
    if not all(map(place.scores_only_at_end, params)):
        return None
    return (
        f"reward={config.turn_reward.name} equals reward=sparse on {' and '.join(tasks)}, which scores only at the end"
    )


@first
def evaluation_refusal(config: DictConfig) -> Iterator[str]:
    """Refuse evaluation sets that cannot be run."""
    node = config.eval
    if not node.temperatures:
        yield "eval.temperatures=[] must list one temperature at least"
    for key in ("tasks", "temperatures"):
        values = list(node[key])
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            yield f"eval.{key} names {twice} twice"
    for env, task in tested(config):
        if (env, task) != own(config):
            try:
                make_environment(env, env_node(config, env)).parse_task(task)
            except TaskError as error:
                yield f"eval.tasks: {error}; a task of another environment is written ENV/TASK"
            except (ImportError, AttributeError, ValueError) as error:
                yield f"eval.tasks: {env} is no environment: {error} (its form is module:Class)"


def useless_samples(config: DictConfig) -> str | None:
    """Warn of several samples at temperature 0, which are equal."""
    samples_per_game = config.eval.samples_per_game
    if samples_per_game == 1 or 0 not in config.eval.temperatures:
        return None
    return (
        f"temperature 0 plays a game {samples_per_game} times the same way: "
        "leave 0 out of eval.temperatures, or eval.samples_per_game=1"
    )


def too_few_turns(config: DictConfig) -> str | None:
    """Warn of the first task, in training or evaluation, whose expert plan is longer than
    ``max_turns``.
    """
    tasks = config.env.get("tasks") or [config.env.task]
    trained = [(config.env.name, task, int(config.env.max_turns)) for task in tasks]
    others = [names for names in tested(config) if names != own(config)]
    for env, task, turns in [*trained, *((*names, turns_of(config, *names)) for names in others)]:
        environment = make_environment(env, env_node(config, env))
        plan = environment.optimal_turns(environment.parse_task(task))
        if plan is not None and turns < plan:
            return f"{task} is won in {plan} turns at best and an episode may have {turns}: expect no wins"
    return None
