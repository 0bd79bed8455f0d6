"""An evaluation setting: which episodes it has, and policies that answer in text. Models play in
``experiments.evaluation.process``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

from omegaconf import DictConfig

from algorithms.registry import FORM
from envs.hosting.pool import EnvPool, pool_of
from envs.registry import make_environment
from rewards.registry import reward
from rollouts.episode import Episode, Outcome
from rollouts.failed_episodes import EpisodeFailed, failed_episode, run_with_retries
from rollouts.loop import EpisodeSpec, run_episode
from rollouts.policy import Policy
from rollouts.prompt_forms.registry import prompt_form
from rollouts.window import window_of
from tasks.evaluation_sets import EvaluationSetting, reward_on
from tasks.splits import read_tasks


def episode_specs(item: EvaluationSetting, config: DictConfig, env: Mapping[str, Any]) -> list[EpisodeSpec]:
    """Every episode of the setting: the evaluation set's games in order, the samples of a game one after the other."""
    environment = make_environment(item.evaluation_set.env, env)
    name, form = reward_on(environment, config), prompt_form(config.get("prompt"))
    earned = reward(name, config.turn_reward if name == config.turn_reward.name else None)
    return [
        EpisodeSpec(
            task,
            environment.prompt,
            item.evaluation_set.max_turns,
            earned,
            sample=sample,
            grade_unfinished=environment.grades_unfinished,
            window=window_of(env, form, config.get(FORM)),
            form=form,
        )
        for task in read_tasks(Path(item.evaluation_set.file))
        for sample in range(item.samples_per_game)
    ]


async def roll_out_in_text(
    policy: Policy, specs: Sequence[EpisodeSpec], pool: EnvPool, at_once: int, done: Callable[[], object]
) -> list[Episode]:
    """Play all ``specs``, ``at_once`` at a time; episodes in the order of the plans.

    The random policy needs a pool that lists legal commands. ``done`` is called after each episode. An episode that
    fails in the environment is recorded as an error.
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
    """Return the first error, in one line, if every episode failed: then the games are not to blame."""
    if any(episode.outcome is not Outcome.ERROR for episode in episodes):
        return ""
    return " ".join(episodes[0].error.split())


class Pools:
    """One pool per environment, started when first needed and shared by all who play there; an asynchronous context."""

    def __init__(self, *, legal: bool = False) -> None:
        self._legal = legal
        self._stack = AsyncExitStack()
        self._pools: dict[str, EnvPool] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def of(self, env: Mapping[str, Any]) -> EnvPool:
        """The pool of an ``env`` node."""
        name = env["name"]
        if name not in self._pools:
            self._pools[name] = await self._stack.enter_async_context(pool_of(env, legal=self._legal))
        return self._pools[name]
