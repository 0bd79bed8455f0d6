"""What is wrong, or of no use, in the ``eval`` node, and in limits of turns that no plan fits into."""

from __future__ import annotations

from collections.abc import Iterator

from omegaconf import DictConfig

from envs.registry import make_environment
from envs.types import TaskError
from tasks.evaluation_sets import env_node, own, tested, turns_of


def evaluation_refusal(config: DictConfig) -> str | None:
    """Why these evaluation sets cannot be played, in one line; None where they can."""
    node = config.eval
    if not node.temperatures:
        return "eval.temperatures=[] must list one temperature at least"
    for key in ("tasks", "temperatures"):
        values = list(node[key])
        if twice := next((value for value in values if values.count(value) > 1), None):
            return f"eval.{key} names {twice} twice"
    return next(_unknown(config), None)


def _unknown(config: DictConfig) -> Iterator[str]:
    for env, task in tested(config):
        if (env, task) != own(config):
            try:
                make_environment(env, env_node(config, env)).parse_task(task)
            except TaskError as error:
                yield f"eval.tasks: {error}; a task of another environment is written ENV/TASK"
            except (ImportError, AttributeError, ValueError) as error:
                yield f"eval.tasks: {env} is no environment: {error} (its form is module:Class)"


def useless_samples(config: DictConfig) -> str | None:
    """Greedy sampling repeats itself."""
    samples_per_game = config.eval.samples_per_game
    if samples_per_game == 1 or 0 not in config.eval.temperatures:
        return None
    return f"temperature 0 plays a game {samples_per_game} times the same way: leave 0 out of eval.temperatures, or eval.samples_per_game=1"


def too_few_turns(config: DictConfig) -> str | None:
    """The first task, trained on or tested on, whose expert plan is longer than its episodes may be."""
    tasks = config.env.get("tasks") or [config.env.task]
    trained = [(config.env.name, task, int(config.env.max_turns)) for task in tasks]
    others = [names for names in tested(config) if names != own(config)]
    for env, task, turns in [*trained, *((*names, turns_of(config, *names)) for names in others)]:
        environment = make_environment(env, env_node(config, env))
        plan = environment.optimal_turns(environment.parse_task(task))
        if plan is not None and turns < plan:
            return f"{task} is won in {plan} turns at best and an episode may have {turns}: expect no wins"
    return None
