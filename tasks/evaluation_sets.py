"""The fixed games that checkpoints are tested on: one evaluation set a task, the same games in whichever run names
that task."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from omegaconf import DictConfig, OmegaConf

from envs.catalogue import Catalogue, games_hash
from envs.environment import Environment
from envs.extensions import CONF, options
from envs.names import file_name
from envs.registry import known, make_environment
from envs.types import TaskRef
from tasks.mixture import task_weights
from tasks.splits import cache_dir, list_games, read_tasks, task_file, what_to_set, write_tasks

SHARED = ("workers", "step_deadline_s", "max_action_tokens", "cache_dir")  # of the run's env node, in any environment


@dataclass(frozen=True)
class EvaluationSet:
    """Games of one task and how long each may last.

    Attributes:
        env, task: whose games these are.
        file: the games as JSON lines of ``TaskRef``.
        sha256: over the games in order: the same on every machine.
        games: how many.
        max_turns: actions an episode may have.
        max_response_length: tokens an episode may have after its first prompt.
        optimal_turns: mean length of the games' expert plans; None where the environment knows none.
        out_of_reach: games whose plan is longer than ``max_turns``.
    """

    env: str
    task: str
    file: str
    sha256: str
    games: int
    max_turns: int
    max_response_length: int
    optimal_turns: float | None
    out_of_reach: int


@dataclass(frozen=True)
class EvaluationSetting:
    """An evaluation set played at one temperature, ``samples_per_game`` times a game. ``label`` names its folder; ""
    is the first setting."""

    label: str
    evaluation_set: EvaluationSet
    temperature: float
    samples_per_game: int


def tested(config: DictConfig) -> list[tuple[str, str]]:
    """(environment, task) of every evaluation set that ``eval.tasks`` names, in that order; the run's own task where
    it names none.

    ``ENV/TASK`` is a task of another environment; any other name is one of the run's own.
    """

    def named(name: str) -> tuple[str, str]:
        env, _, task = name.partition("/")
        return (env, task) if task and known(env) else (str(config.env.name), name)

    return [named(str(name)) for name in config.eval.tasks] or [own(config)]


def own(config: DictConfig) -> tuple[str, str]:
    """What the run trains on: a task, or the name of its mixture, whose evaluation set holds the tasks in
    proportion."""
    return str(config.env.name), str(config.env.task)


def env_node(config: DictConfig, name: str) -> dict[str, Any]:
    """The ``env`` node of an environment: the run's own, or the other environment's defaults with the run's workers
    and limits."""
    ours = name == config.env.name
    node = config.env if ours else OmegaConf.merge({key: config.env[key] for key in SHARED}, _defaults(name))
    plain = OmegaConf.to_container(node, resolve=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def _defaults(name: str) -> DictConfig:
    """What ``env=NAME`` sets; a name without a file of options is all that is set."""
    ours = CONF / "env" / f"{name}.yaml"
    file = ours if ours.exists() else options().get("env", {}).get(name)
    if file is None:
        return OmegaConf.create({"name": name})
    defaults = OmegaConf.load(file)
    OmegaConf.resolve(defaults)
    return defaults.env


def turns_of(config: DictConfig, env: str, task: str) -> int:
    """``eval.max_turns``; else what training allows on the run's own task, and what the environment says on any other.

    Raises:
        TaskError: no such environment or task.
    """
    if config.eval.max_turns is not None:
        return int(config.eval.max_turns)
    if (env, task) == own(config):
        return int(config.env.max_turns)
    return make_environment(env, env_node(config, env)).max_turns(task)


def response_length(config: DictConfig, turns: int) -> int:
    """The run's own limit; as much more as an evaluation set has more turns, as far as the model's context goes."""
    length = int(config.data.max_response_length)
    longer = -(-length * turns // int(config.env.max_turns))
    return max(length, min(longer, int(config.model.context) - int(config.data.max_prompt_length)))


def evaluation_settings(config: DictConfig, folder: Path) -> list[EvaluationSetting]:
    """Every evaluation set at every temperature, once ``prepare_evaluation_sets`` and ``prepare_tasks`` have listed
    the games."""
    sets = [_evaluation_set(config, folder, *names) for names in tested(config)]
    settings: list[EvaluationSetting] = []
    for one, temperature in itertools.product(sets, map(float, config.eval.temperatures)):
        name = label(config.env.name, one.env, one.task, temperature) if settings else ""
        settings.append(EvaluationSetting(name, one, temperature, int(config.eval.samples_per_game)))
    return settings


def label(own_env: str, env: str, task: str, temperature: float) -> str:
    """What names the folder of any round but the first."""
    return file_name(f"{task if env == own_env else f'{env}-{task}'}-t{temperature:g}")


def by_task(item: EvaluationSetting) -> list[tuple[EvaluationSetting, list[int]]]:
    """A mixture's setting as one setting a task, each with the places of its games; [] where all games are of one task."""
    games = read_tasks(Path(item.evaluation_set.file))
    tasks = list(dict.fromkeys(game.task for game in games))
    places = {task: [place for place, game in enumerate(games) if game.task == task] for task in tasks}
    parts = []
    for task in tasks if len(tasks) > 1 else ():
        measured = _measured([games[place] for place in places[task]], item.evaluation_set.max_turns)
        part = replace(item.evaluation_set, task=task, **measured)
        parts.append((replace(item, evaluation_set=part), places[task]))
    return parts


def _evaluation_set(config: DictConfig, folder: Path, env: str, task: str) -> EvaluationSet:
    file = _file(config, folder, env, task)
    turns = turns_of(config, env, task)
    return EvaluationSet(
        env=env,
        task=task,
        file=str(file),
        max_turns=turns,
        max_response_length=response_length(config, turns),
        **_measured(read_tasks(file), turns),
    )


def _measured(games: Sequence[TaskRef], turns: int) -> dict[str, Any]:
    plans = [len(game.expert_plan) for game in games if game.expert_plan]
    return {
        "sha256": games_hash(games),
        "games": len(games),
        "optimal_turns": fmean(plans) if plans else None,
        "out_of_reach": sum(plan > turns for plan in plans),
    }


def _file(config: DictConfig, folder: Path, env: str, task: str) -> Path:
    if (env, task) == own(config):
        return task_file(folder, "test")
    return folder / "tasks" / "evaluation_sets" / f"{file_name(f'{env}-{task}')}.jsonl"


def prepare_evaluation_sets(config: DictConfig, folder: Path, also_own: bool = False) -> frozenset[str]:
    """List the evaluation sets other than the run's own, and that one too if asked; returns the games' fingerprints,
    which training games must not have.

    An evaluation set is listed without a look at any other split, so that it is the same everywhere: the others give
    way.

    Raises:
        TaskError: an evaluation set cannot be filled.
    """
    seen: set[str] = set()
    for env, task in tested(config):
        if also_own or (env, task) != own(config):
            environment = make_environment(env, env_node(config, env))
            catalogue = Catalogue(environment, cache_dir(config))
            weights = task_weights(config.env) if (env, task) == own(config) else {task: 1.0}
            with what_to_set():
                listed = list_games(catalogue, weights, {"test": config.eval.games}, reward_on(environment, config))
            games = listed["test"].tasks
            write_tasks(_file(config, folder, env, task), games)
            seen |= {game.fingerprint for game in games}
    return frozenset(seen)


def reward_on(environment: Environment, config: DictConfig) -> str:
    """The run's reward where the environment offers it; evaluation counts wins, whatever the reward."""
    name = str(config.turn_reward.name)
    return name if environment.offers(name) else environment.rewards[0]


def from_dict(data: dict[str, Any]) -> EvaluationSetting:
    """From what ``dataclasses.asdict`` makes of one."""
    return EvaluationSetting(**{**data, "evaluation_set": EvaluationSet(**data["evaluation_set"])})
