"""The expert plays the demonstration games; what it did is written as the same Episode records as any other play."""

from __future__ import annotations

import asyncio
from pathlib import Path

from omegaconf import DictConfig
from tqdm import tqdm

from envs.pool import EnvPool, pool_of
from envs.registry import world
from envs.types import TaskRef
from experiments.tasks import read_tasks, task_file
from rewards.registry import reward
from rollouts.episode import Episode
from rollouts.loop import EpisodePlan, run_episode
from rollouts.retry import play_with_retries
from rollouts.store import write_episodes
from rollouts.text_policies import ExpertPolicy


class ExpertLost(RuntimeError):
    """A walkthrough that the catalogue accepted did not win: the game on disk is not the one that was checked."""


def episodes_file(folder: Path) -> Path:
    return folder / "episodes" / "demonstrations.jsonl"


def make_demonstrations(config: DictConfig, folder: Path) -> None:
    """Play each demonstration game once and write the episodes in the order of the games.

    Raises:
        ExpertLost: a demonstration does not end in a win.
    """
    tasks = read_tasks(task_file(folder, "demonstrations"))
    episodes = asyncio.run(_play_all(config, list(tasks)))
    lost = [episode.task for episode in episodes if not episode.won]
    if lost:
        raise ExpertLost(f"{len(lost)} of {len(episodes)} walkthroughs did not win, first: {lost[0]}")
    write_episodes(episodes_file(folder), episodes)


async def _play_all(config: DictConfig, tasks: list[TaskRef]) -> list[Episode]:
    with tqdm(total=len(tasks), desc="demonstrations", unit="game") as bar:
        async with pool_of(config.env) as pool:
            return list(await asyncio.gather(*(_play(config, pool, task, bar) for task in tasks)))


async def _play(config: DictConfig, pool: EnvPool, task: TaskRef, bar: tqdm) -> Episode:
    turns = max(int(config.env.max_turns), len(task.walkthrough))
    style = world(config.env.name, config.env).prompt
    plan = EpisodePlan(task, style, turns, reward(config.turn_reward.name, config.turn_reward))
    episode = await play_with_retries(pool.open, lambda session: run_episode(ExpertPolicy(), session, plan, None))
    bar.update()
    return episode
