"""Real games for the tests of rollouts, made once and kept, and a process to play them."""

from collections.abc import Callable

import pytest

from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskRef


@pytest.fixture(scope="session")
def demonstration_games() -> list[TaskRef]:
    return Catalogue(make_environment("textworld"), None).tasks("w2-o3-q4", "demonstrations", 4, progress=False)


@pytest.fixture
def game(demonstration_games: list[TaskRef]) -> TaskRef:
    return demonstration_games[0]


@pytest.fixture(scope="module")
def pool(pool_of_one: Callable[[str], EnvPool]) -> EnvPool:
    return pool_of_one("textworld")
