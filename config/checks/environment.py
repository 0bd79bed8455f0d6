"""Checks of the nodes ``env``, ``turn_reward`` and ``eval``."""

from __future__ import annotations

from collections.abc import Iterator

from omegaconf import DictConfig

from turngrid.config.finalise import explained
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskError
from turngrid.rewards.registry import REWARDS, reward
from turngrid.tasks.evaluation_sets import env_node, own, tested, turns_of
from turngrid.tasks.mixture import task_weights


def unknown_task(config: DictConfig) -> Iterator[str]:
    try:
        for task in task_weights(config.env):
            make_environment(config.env.name, config.env).parse_task(task)
    except TaskError as error:
        yield explained(error, config.env)


def reward_not_offered(config: DictConfig) -> Iterator[str]:
    offered, name = make_environment(config.env.name, config.env).rewards, config.turn_reward.name
    if name in REWARDS and name not in offered:  # a user's own reward may read anything
        yield f"reward={name}: env={config.env.name} does not offer it; use reward={' or '.join(offered)}"


def bad_reward_settings(config: DictConfig) -> Iterator[str]:
    if problem := getattr(reward(config.turn_reward.name, config.turn_reward), "problem", str)():
        yield problem


def step_deadline(config: DictConfig) -> Iterator[str]:
    longest, deadline = make_environment(config.env.name, config.env).longest_step_s, config.env.step_deadline_s
    if deadline <= longest:
        because = ", by env.tests_deadline_s" if "tests_deadline_s" in config.env else ""
        yield (
            f"env.step_deadline_s={deadline:g}: one step of this environment may take {longest:g} s{because}; "
            "use a higher one"
        )


def bad_window(config: DictConfig) -> Iterator[str]:
    turns, keep = config.env.window_turns, config.env.window_keep
    if keep is not None and turns is None:
        yield f"env.window_keep={keep}: there is no window; use env.window_turns too"
    elif keep is not None and keep >= turns:
        yield f"env.window_keep={keep}: it must be below env.window_turns={turns}; use env.window_keep={turns - 1}"


def equal_rewards(config: DictConfig) -> Iterator[str]:
    if config.turn_reward.name not in ("dense", "balanced"):
        return
    environment, tasks = make_environment(config.env.name, config.env), list(task_weights(config.env))
    params = [environment.with_reward(environment.parse_task(task), config.turn_reward.name) for task in tasks]
    if all(map(environment.scores_only_at_end, params)):
        only = f"{' and '.join(tasks)} scores only at the end"
        yield f"reward={config.turn_reward.name}: it equals reward=sparse, since {only}"


def bad_evaluation(config: DictConfig) -> Iterator[str]:
    node = config.eval
    if not node.temperatures:
        yield "eval.temperatures=[]: nothing would be evaluated; use eval.temperatures=[0.4]"
    for key in ("tasks", "temperatures"):
        values = list(node[key])
        if twice := [value for value in values if values.count(value) > 1]:
            yield f"eval.{key}={values}: {twice[0]} stands there twice; use each once"
    for env, task in tested(config):
        if (env, task) != own(config):
            try:
                make_environment(env, env_node(config, env)).parse_task(task)
            except TaskError as error:
                yield f"eval.tasks: {error}; a task of another environment is written ENV/TASK"
            except (ImportError, AttributeError, ValueError) as error:
                yield f"eval.tasks: {env} is no environment: {error} (its form is module:Class)"


def useless_samples(config: DictConfig) -> Iterator[str]:
    samples_per_game = config.eval.samples_per_game
    if samples_per_game > 1 and 0 in config.eval.temperatures:
        yield (
            f"eval.samples_per_game={samples_per_game}: samples at temperature 0 are equal; "
            "use eval.samples_per_game=1, or leave 0 out of eval.temperatures"
        )


def too_few_turns(config: DictConfig) -> Iterator[str]:
    """Warn of the first task whose expert plan is longer than ``max_turns``."""
    tasks = config.env.get("tasks") or [config.env.task]
    trained = [(config.env.name, task, int(config.env.max_turns)) for task in tasks]
    others = [names for names in tested(config) if names != own(config)]
    for env, task, turns in [*trained, *((*names, turns_of(config, *names)) for names in others)]:
        environment = make_environment(env, env_node(config, env))
        plan = environment.optimal_turns(environment.parse_task(task))
        if plan is not None and turns < plan:
            yield f"{task}: won in {plan} turns at best and an episode has {turns}, so expect no wins; use more turns"
            return
