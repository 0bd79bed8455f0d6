"""Playing a round: which episodes it has, and players that answer in text. Models play in ``verl_plugin.evaluate``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from envs.pool import EnvPool, pool_of
from envs.registry import world
from experiments.panels import Round, reward_on
from experiments.tasks import read_tasks
from rewards.registry import reward
from rollouts.episode import Episode
from rollouts.loop import EpisodePlan, run_episode
from rollouts.policy import Policy
from rollouts.retry import EpisodeFailed, failed_episode, play_with_retries


def episode_plans(item: Round, config: DictConfig, env: Mapping[str, Any]) -> list[EpisodePlan]:
    """Every play of the round: the panel's games in order, the plays of a game one after the other."""
    place = world(item.panel.env, env)
    name = reward_on(place, config)
    earned = reward(name, config.turn_reward if name == config.turn_reward.name else None)
    return [
        EpisodePlan(
            task, place.prompt, item.panel.max_turns, earned, sample=play, grade_unfinished=place.grades_unfinished
        )
        for task in read_tasks(Path(item.panel.file))
        for play in range(item.plays)
    ]


async def play_in_text(
    policy: Policy,
    plans: Sequence[EpisodePlan],
    env: Mapping[str, Any],
    at_once: int,
    done: Callable[[], object],
) -> list[Episode]:
    """Play all ``plans``, ``at_once`` at a time, on a pool of their own; episodes in the order of the plans.

    The pool lists legal commands, for the random player; none of them gets into a prompt. ``done`` is called after each
    episode. An episode that fails in the world is recorded as an error.
    """
    gate = asyncio.Semaphore(at_once)
    async with pool_of(env, legal=True) as pool:

        async def play(plan: EpisodePlan) -> Episode:
            async with gate:
                episode = await _play(policy, plan, pool)
            done()
            return episode

        return list(await asyncio.gather(*(play(plan) for plan in plans)))


async def _play(policy: Policy, plan: EpisodePlan, pool: EnvPool) -> Episode:
    try:
        return await play_with_retries(pool.open, lambda session: run_episode(policy, session, plan, None))
    except EpisodeFailed as error:
        return failed_episode(plan, policy.name, error)
