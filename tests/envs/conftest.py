"""Small sets of real games, made once a session, and an environment that breaks."""

import sys
from pathlib import Path

import pytest

from turngrid.envs import registry
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.jvm import machine

sys.path.append(str(Path(__file__).parent))


def pytest_configure(config: pytest.Config) -> None:
    """The interpreter warns of every game that is not one of the classics it knows; TextWorld reads
    scores itself."""
    config.addinivalue_line("filterwarnings", "ignore:Game .* is not fully supported")


@pytest.fixture(scope="session")
def custom_games(game_cache):
    """Four games of w2-o3-q4 from the test split."""
    return Catalogue(registry.make_environment("textworld"), game_cache).tasks("w2-o3-q4", "test", 4, progress=False)


@pytest.fixture(scope="session")
def simple_games(game_cache):
    """The first game of tw-simple under each of its rewards."""
    catalogue = Catalogue(registry.make_environment("tw_simple"), game_cache)
    return {
        reward: catalogue.tasks("tw-simple", "test", 1, reward=reward, progress=False)[0]
        for reward in ("sparse", "balanced", "dense")
    }


@pytest.fixture(scope="session")
def games(game_cache):
    """ALFWorld's first test game of each type."""
    from alfworld_stock import one_of_each

    return one_of_each(game_cache)


@pytest.fixture(scope="module")
def no_jvm_is_left():
    yield
    machine.close_all()


@pytest.fixture
def fragile(tmp_path):
    """The catalogue of an environment that hangs, dies and prints on command."""
    return Catalogue(registry.make_environment("fragile:Fragile"), tmp_path / "cache with space")


@pytest.fixture
def listed(tmp_path):
    """The catalogue of an environment with listed games."""
    return Catalogue(registry.make_environment("fragile:Listed", {"numbers": [3, -1, 2, 9]}), tmp_path)
