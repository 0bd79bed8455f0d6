"""Evaluation sets: the fixed games that checkpoints are tested on, equal in all runs of a task."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from omegaconf import DictConfig, OmegaConf

from turngrid.envs.environment import Environment
from turngrid.envs.extensions import shipped
from turngrid.envs.games.catalogue import Catalogue, games_hash
from turngrid.envs.registry import known, make_environment
from turngrid.envs.types import TaskRef
from turngrid.envs.utils.names import file_name
from turngrid.rollouts.policy import RANDOM
from turngrid.rollouts.prompt_forms.registry import prompt_form
from turngrid.tasks.mixture import task_weights
from turngrid.tasks.splits import cache_dir, list_games, read_tasks, task_file, what_to_set, write_tasks

# Keys of the run's env node that hold in any environment.
SHARED = ("workers", "step_deadline_s", "max_action_tokens", "cache_dir")


@dataclass(frozen=True)
class EvaluationSet:
    """Games of one task and how long each may last."""

    env: str
    task: str
    file: str  # the games as JSON lines of ``TaskRef``
    sha256: str  # of the games in order, equal on every machine
    games: int
    max_turns: int
    max_response_length: int  # tokens after an episode's first prompt
    optimal_turns: float | None  # mean length of the games' expert plans; None without expert plans
    out_of_reach: int  # games whose expert plan is longer than an episode may be
    max_actions: int | None = None  # in an episode, if an answer may have several

    @property
    def reach(self) -> int:
        """Actions in an episode at most."""
        return self.max_turns if self.max_actions is None else self.max_actions


@dataclass(frozen=True)
class EvaluationSetting:
    """An evaluation set at one temperature, with ``samples_per_game`` episodes per game."""

    label: str  # name of the folder; "" for the first setting
    evaluation_set: EvaluationSet
    temperature: float
    samples_per_game: int
    opponent: str = ""  # in games of two seats; the seat alternates with the sample

    @property
    def task(self) -> str:
        """The name in tables and records."""
        return f"{self.evaluation_set.task} against {self.opponent}" if self.opponent else self.evaluation_set.task


def tested(config: DictConfig) -> list[tuple[str, str]]:
    """Return (environment, task) of each evaluation set in ``eval.tasks``; default: the run's task.

    ``ENV/TASK`` is a task of another environment; other names are tasks of the run's environment.
    """

    def named(name: str) -> tuple[str, str]:
        env, _, task = name.partition("/")
        return (env, task) if task and known(env) else (str(config.env.name), name)

    return [named(str(name)) for name in config.eval.tasks] or [own(config)]


def own(config: DictConfig) -> tuple[str, str]:
    """Return environment and task (or mixture) that the run trains on.

    A mixture's evaluation set has the tasks in proportion to their weights.
    """
    return str(config.env.name), str(config.env.task)


def env_node(config: DictConfig, name: str) -> dict[str, Any]:
    """Return the ``env`` node of an environment.

    Another environment than the run's has its defaults, with the run's workers and limits.
    """
    node: Any = OmegaConf.to_container(config.env, resolve=True)
    if name == node["name"]:
        return node
    return {"name": name, **{key: node[key] for key in SHARED}, **shipped("env", name)}


def turns_of(config: DictConfig, env: str, task: str) -> int:
    """Return ``eval.max_turns``, else training's limit for the run's task, else the environment's.

    Raises:
        TaskError: the environment or task does not exist.
    """
    if config.eval.max_turns is not None:
        return int(config.eval.max_turns)
    if (env, task) == own(config):
        return int(config.env.max_turns)
    return make_environment(env, env_node(config, env)).max_turns(task)


def response_length(config: DictConfig, turns: int) -> int:
    """Return the response's token limit, raised in proportion to ``turns`` up to the context."""
    length = int(config.data.max_response_length)
    longer = -(-length * turns // int(config.env.max_turns))
    return max(length, min(longer, int(config.model.context) - int(config.data.max_prompt_length)))


def evaluation_settings(config: DictConfig, folder: Path) -> list[EvaluationSetting]:
    """Return every evaluation set at every temperature; their games must have been listed."""
    sets = [_evaluation_set(config, folder, *names) for names in tested(config)]
    settings: list[EvaluationSetting] = []
    for one, temperature in itertools.product(sets, map(float, config.eval.temperatures)):
        seats = make_environment(one.env, env_node(config, one.env)).seats
        samples = int(config.eval.samples_per_game) * max(1, len(seats))
        for opponent in opponents_of(config) if seats else [""]:
            name = label(config.env.name, one.env, one.task, temperature, opponent) if settings else ""
            settings.append(EvaluationSetting(name, one, temperature, samples, opponent))
    return settings


def opponents_of(config: DictConfig) -> list[str]:
    return list(config.eval.get("opponents") or [RANDOM])


def through_servers(config: DictConfig) -> bool:
    """Return whether rollout servers run the evaluation; by default with vLLM on GPUs."""
    if config.eval.servers is not None:
        return bool(config.eval.servers)
    return bool(config.trainer.device == "cuda" and config.actor_rollout_ref.rollout.name == "vllm")


def label(own_env: str, env: str, task: str, temperature: float, opponent: str = "") -> str:
    """Return the folder name of any evaluation setting but the first."""
    against = f"-{opponent}" if opponent else ""
    return file_name(f"{task if env == own_env else f'{env}-{task}'}{against}-t{temperature:g}")


def by_task(item: EvaluationSetting) -> list[tuple[EvaluationSetting, list[int]]]:
    """Split a mixture's setting by task, each with its games' indices; [] if there is one task."""
    games = read_tasks(Path(item.evaluation_set.file))
    tasks = list(dict.fromkeys(game.task for game in games))
    indices = {task: [i for i, game in enumerate(games) if game.task == task] for task in tasks}
    parts = []
    for task in tasks if len(tasks) > 1 else ():
        measured = _measured([games[i] for i in indices[task]], item.evaluation_set.reach)
        part = replace(item.evaluation_set, task=task, **measured)
        parts.append((replace(item, evaluation_set=part), indices[task]))
    return parts


def _evaluation_set(config: DictConfig, folder: Path, env: str, task: str) -> EvaluationSet:
    file = _file(config, folder, env, task)
    turns = turns_of(config, env, task)
    actions = turns * prompt_form(config.get("prompt")).actions_a_turn
    if env == config.env.name and (most := config.env.get("max_actions")) is not None:
        actions = min(actions, int(most))
    return EvaluationSet(
        env=env,
        task=task,
        file=str(file),
        max_turns=turns,
        max_response_length=response_length(config, turns),
        max_actions=None if actions == turns else actions,
        **_measured(read_tasks(file), actions),
    )


def _measured(games: Sequence[TaskRef], actions: int) -> dict[str, Any]:
    plans = [len(game.expert_plan) for game in games if game.expert_plan]
    return {
        "sha256": games_hash(games),
        "games": len(games),
        "optimal_turns": fmean(plans) if plans else None,
        "out_of_reach": sum(plan > actions for plan in plans),
    }


def _file(config: DictConfig, folder: Path, env: str, task: str) -> Path:
    if (env, task) == own(config):
        return task_file(folder, "test")
    return folder / "tasks" / "evaluation_sets" / f"{file_name(f'{env}-{task}')}.jsonl"


def prepare_evaluation_sets(config: DictConfig, folder: Path, also_own: bool = False) -> frozenset[str]:
    """Write the games of all evaluation sets but the run's own and return their fingerprints.

    An evaluation set ignores all other splits, so that it is the same in every run; the other
    splits avoid its games. With ``also_own`` the run's own is written too.

    Raises:
        TaskError: an environment has too few games.
    """
    fingerprints: set[str] = set()
    for env, task in tested(config):
        if also_own or (env, task) != own(config):
            environment = make_environment(env, env_node(config, env))
            catalogue = Catalogue(environment, cache_dir(config))
            weights = task_weights(config.env) if (env, task) == own(config) else {task: 1.0}
            with what_to_set():
                listed = list_games(catalogue, weights, {"test": config.eval.games}, reward_on(environment, config))
            games = listed["test"].tasks
            write_tasks(_file(config, folder, env, task), games)
            fingerprints |= {game.fingerprint for game in games}
    return frozenset(fingerprints)


def reward_on(environment: Environment, config: DictConfig) -> str:
    """Return the run's reward if the environment offers it, else its first.

    Evaluation counts wins, whatever the reward.
    """
    name = str(config.turn_reward.name)
    return name if environment.offers(name) else environment.rewards[0]
