"""Real games for the tests of rollouts, made once and kept, and a process to play them."""

import asyncio
from collections.abc import Callable

import pytest

from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.types import TaskRef
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.failed_episodes import run_with_retries
from turngrid.rollouts.loop import EpisodeSpec, run_episode


@pytest.fixture(scope="session")
def game(games: list[TaskRef]) -> TaskRef:
    return games[0]


@pytest.fixture(scope="module")
def pool(pool_of_one: Callable[[str], EnvPool]) -> EnvPool:
    return pool_of_one("textworld")


@pytest.fixture
def play_spec(runner: asyncio.Runner, pool: EnvPool) -> Callable[[object, EpisodeSpec], Episode]:
    """An episode of a policy on a real game."""

    def play(policy: object, spec: EpisodeSpec) -> Episode:
        return runner.run(
            run_with_retries(pool.open, lambda session: run_episode(policy, session, spec, None), retries=0)
        )

    return play
