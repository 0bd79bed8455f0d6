"""What a run will need, counted without running anything: games, demonstrations, episodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omegaconf import DictConfig

from envs.environment import Environment
from envs.games.catalogue import Catalogue, TooFewGames
from envs.registry import make_environment
from tasks.budget import Allocation, allocate_budget, with_games
from tasks.evaluation_sets import env_node, own, reward_on, tested
from tasks.mixture import shares, task_weights
from tasks.splits import cache_dir, games_wanted, validation_samples, what_to_set


@dataclass(frozen=True)
class Games:
    """Games of one split of one task: how many are wanted, how many of them the cache holds, how many seeds must still be
    tried for the others (more than they are, where some are rejected)."""

    split: str
    task: str
    wanted: int
    cached: int
    to_try: int


@dataclass(frozen=True)
class Needs:
    """``models`` are evaluated (base, after SFT, after RL) on ``samples`` episodes each; ``validation`` episodes come
    between the steps of RL."""

    allocation: Allocation
    games: tuple[Games, ...]
    models: int
    samples: int
    validation: int = 0

    @property
    def to_make(self) -> int:
        return sum(games.to_try for games in self.games)


def needs(config: DictConfig) -> Needs:
    """Raises: TaskError: a task's split has fewer games than are wanted; the message names the key to set."""
    allocation = allocate_budget(config)
    with what_to_set():
        games = tuple(_games(config, allocation))
    allocation = with_games(allocation, config.budget, sum(part.wanted for part in games if part.split == "train"))
    models = 1 + bool(allocation.demonstrations) + bool(allocation.steps)
    evaluation_sets = len(tested(config)) * len(config.eval.temperatures)
    evaluated = evaluation_sets * int(config.eval.games) * int(config.eval.samples_per_game)
    return Needs(allocation, games, models, evaluated, validation_samples(config, allocation.steps))


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
    there, missing, rejected = catalogue.outlook(task, split, wanted, reward_on(environment, config))
    most = there + missing
    if 0 < most < wanted and split == "train" and not config.env.tasks:
        wanted = most  # they are revisited
    if most < wanted:
        message = f"{task}: split {split} has at most {most} games of the {wanted} asked for"
        raise TooFewGames(message, split, most, environment.more_games)
    tries = missing if not there else round(missing * (there + rejected) / there)
    return Games(split, task, wanted, there, tries)
