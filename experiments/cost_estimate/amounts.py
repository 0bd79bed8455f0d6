"""What a run will need, counted without running anything: games, steps, episodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omegaconf import DictConfig

from turngrid.envs.environment import Environment
from turngrid.envs.games.catalogue import Catalogue, TooFewGames
from turngrid.envs.registry import make_environment
from turngrid.tasks.budget import Allocation, allocate_budget, with_games
from turngrid.tasks.evaluation_sets import env_node, own, reward_on, tested
from turngrid.tasks.mixture import shares, task_weights
from turngrid.tasks.splits import cache_dir, games_wanted, validation_samples, what_to_set


@dataclass(frozen=True)
class Games:
    """Training or test games of one task: the number wanted and the number in the cache."""

    split: str
    task: str
    wanted: int
    cached: int


@dataclass(frozen=True)
class Amounts:
    """What a run will need.

    Attributes:
        models: evaluated models: base, after SFT, after RL.
        samples: evaluation episodes of each model.
        validation: episodes of all validations during RL.
        units: stage -> (count, name of the unit), in order.
    """

    allocation: Allocation
    games: tuple[Games, ...]
    models: int
    samples: int
    validation: int
    units: dict[str, tuple[int, str]]


def amounts(config: DictConfig) -> Amounts:
    """Count what a run will need.

    Raises:
        TaskError: a task's split has too few games; the message names the key to set.
    """
    allocation = allocate_budget(config)
    with what_to_set():
        games = tuple(_games(config, allocation))
    allocation = with_games(allocation, config.budget, sum(part.wanted for part in games if part.split == "train"))
    demonstrations, steps, sft = allocation.demonstrations, allocation.steps, config.model.sft
    models = 1 + bool(demonstrations) + bool(steps)
    evaluation_sets = len(tested(config)) * len(config.eval.temperatures)
    samples = evaluation_sets * int(config.eval.games) * int(config.eval.samples_per_game)
    units = {
        "demonstrations": (demonstrations, "episodes"),
        "sft": (int(sft.epochs) * -(-demonstrations // int(sft.batch_size)), "steps"),
        "rl": (steps, "steps"),
        "evaluation": (models * samples, "episodes"),
    }
    needed = {stage: unit for stage, unit in units.items() if unit[0]}
    return Amounts(allocation, games, models, samples, validation_samples(config, steps), needed)


def _games(config: DictConfig, allocation: Allocation) -> Iterator[Games]:
    environment, weights = make_environment(config.env.name, config.env), task_weights(config.env)
    for split, count in games_wanted(config, allocation).items():
        for task, share in shares(weights, count).items():
            if share:
                yield _split(config, environment, task, split, share)
    for env, task in tested(config):
        if (env, task) != own(config):
            yield _split(config, make_environment(env, env_node(config, env)), task, "test", int(config.eval.games))


def _split(config: DictConfig, environment: Environment, task: str, split: str, wanted: int) -> Games:
    catalogue = Catalogue(environment, cache_dir(config))
    cached, missing, _ = catalogue.outlook(task, split, wanted, reward_on(environment, config))
    most = cached + missing
    if 0 < most < wanted and split == "train" and not config.env.tasks:
        wanted = most  # they are revisited
    if most < wanted:
        message = f"{task}: split {split} has at most {most} games of the {wanted} asked for"
        raise TooFewGames(message, split, most, environment.more_games)
    return Games(split, task, wanted, cached)
