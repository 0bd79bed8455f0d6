"""Environments with settings, with games that are listed rather than drawn, and with episodes
graded when they are cut off."""

import os
import signal

import pytest
from omegaconf import OmegaConf

from turngrid.envs import registry
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.types import EnvError, TaskError

SETTINGS = {"numbers": [3, -1, 2, 9], "unknown": 1}


@pytest.fixture
def listed(monkeypatch, tmp_path):
    monkeypatch.setitem(registry.ENVIRONMENTS, "listed", "fragile:Listed")
    return Catalogue(registry.make_environment("listed", SETTINGS), tmp_path)


def test_a_listed_split_keeps_its_order_and_counts_what_is_broken(listed):
    settings = registry.make_environment("listed", OmegaConf.create(SETTINGS)).settings
    assert settings.numbers == (3, -1, 2, 9) and registry.make_environment("listed").settings.numbers == []
    listing = listed.listing("", "train", None, progress=False)
    assert [task.seed for task in listing.tasks] == [3, 2, 9]
    assert listing.rejected == [(-1, "a broken file")]
    assert listing.tasks[0].params == {"split": "train"}
    with pytest.raises(TaskError, match=r"3 games of the 4 asked for; 1 seeds rejected \(1 x a broken file\)"):
        listed.tasks("", "train", 4, progress=False)
    with pytest.raises(TaskError, match="split train has 0 games"):
        listed.listings("", {"test": 3, "train": 1}, progress=False)


async def test_an_episode_that_is_cut_off_is_graded_also_by_a_new_worker(listed):
    """Two of three turns will do."""
    task = listed.tasks("", "train", 1, progress=False)[0]
    async with EnvPool("listed", 1, 20.0, settings=SETTINGS) as pool:
        session = await pool.open()
        for turns in (1, 2):
            await session.reset(task, 0)
            for _ in range(turns):
                await session.step("add")
            os.kill(pool.pids[0], signal.SIGKILL)
            last = await session.finish()
            assert (last.won, last.score_delta, last.info) == (turns == 2, turns - 1, {"count": turns})
        with pytest.raises(EnvError, match="no episode is open"):
            await session.finish()
