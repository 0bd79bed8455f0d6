"""The episodes of an evaluation setting, and rollouts of policies that answer in text.

Models run in ``turngrid.experiments.evaluation.process``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from turngrid.envs.hosting.pool import EnvPool, pool_of
from turngrid.rollouts.episode import Episode, Outcome
from turngrid.rollouts.failed_episodes import EpisodeFailed, failed_episode, run_with_retries
from turngrid.rollouts.loop import EpisodeSpec, run_episode
from turngrid.rollouts.policy import Policy
from turngrid.tasks.evaluation_sets import EvaluationSetting
from turngrid.tasks.run import Run
from turngrid.tasks.splits import read_tasks


def episode_specs(run: Run, item: EvaluationSetting) -> list[EpisodeSpec]:
    """Return every episode of the setting: games in order, a game's samples together."""
    run, turns = run.of_environment(item.evaluation_set.env), item.evaluation_set.max_turns
    games = read_tasks(Path(item.evaluation_set.file))
    return [run.spec(game, turns, sample) for game in games for sample in range(item.samples_per_game)]


async def roll_out_in_text(
    policy: Policy, specs: Sequence[EpisodeSpec], pool: EnvPool, at_once: int, done: Callable[[], object]
) -> list[Episode]:
    """Run all ``specs``, ``at_once`` at a time, and return the episodes in their order.

    An episode that fails in the environment is recorded as an error. The random policy needs a pool
    that lists legal commands.

    Args:
        done: called after each episode.
    """
    gate = asyncio.Semaphore(at_once)

    async def play(spec: EpisodeSpec) -> Episode:
        async with gate:
            try:
                episode = await run_with_retries(pool.open, lambda session: run_episode(policy, session, spec, None))
            except EpisodeFailed as error:
                episode = failed_episode(spec, policy.name, error)
        done()
        return episode

    return list(await asyncio.gather(*(play(spec) for spec in specs)))


def common_failure(episodes: Sequence[Episode]) -> str:
    """If every episode failed, return the first error in one line; else ""."""
    if any(episode.outcome is not Outcome.ERROR for episode in episodes):
        return ""
    return " ".join(episodes[0].error.split())


class Pools:
    """Environment pools, one for each environment, started on first use and closed with the
    context.
    """

    def __init__(self, *, legal: bool = False) -> None:
        self._legal = legal
        self._stack = AsyncExitStack()
        self._pools: dict[str, EnvPool] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def of(self, run: Run, name: str) -> EnvPool:
        """Return the pool of an environment."""
        if name not in self._pools:
            env = run.of_environment(name).config.env
            self._pools[name] = await self._stack.enter_async_context(pool_of(env, legal=self._legal))
        return self._pools[name]
