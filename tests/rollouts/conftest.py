"""Real games for the rollouts' tests, made once and kept in the cache."""

import pytest

from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskRef


@pytest.fixture(scope="session")
def demonstration_games() -> list[TaskRef]:
    return Catalogue(make_environment("textworld"), None).tasks("w2-o3-q4", "demonstrations", 4, progress=False)
