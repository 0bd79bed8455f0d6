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
from turngrid.rewards.scores import Sparse
from turngrid.rollouts.episode import Outcome
from turngrid.rollouts.loop import EpisodeSpec, run_episode
from turngrid.rollouts.policy import Reply

SETTINGS = {"numbers": [3, -1, 2, 9], "unknown": 1}


class Adder:
    name = "adder"

    async def act(self, context):
        return Reply("add")


@pytest.fixture
def listed(monkeypatch, tmp_path):
    monkeypatch.setitem(registry.ENVIRONMENTS, "listed", "listed:Listed")
    return Catalogue(registry.make_environment("listed", SETTINGS), tmp_path)


def test_settings_come_from_whatever_mapping_holds_them(monkeypatch):
    monkeypatch.setitem(registry.ENVIRONMENTS, "listed", "listed:Listed")
    assert registry.make_environment("listed").settings.numbers == []
    assert registry.make_environment("listed", OmegaConf.create(SETTINGS)).settings.numbers == (3, -1, 2, 9)


def test_a_listed_split_keeps_its_order_and_counts_what_is_broken(listed):
    listing = listed.listing("", "train", None, progress=False)
    assert [task.seed for task in listing.tasks] == [3, 2, 9]
    assert listing.rejected == [(-1, "a broken file")]
    assert listing.tasks[0].params == {"split": "train"}


def test_more_games_than_are_listed_are_refused(listed):
    with pytest.raises(TaskError, match=r"3 games of the 4 asked for; 1 seeds rejected \(1 x a broken file\)"):
        listed.tasks("", "train", 4, progress=False)


def test_two_listed_splits_share_no_game(listed):
    with pytest.raises(TaskError, match="split train has 0 games"):
        listed.listings("", {"test": 3, "train": 1}, progress=False)


@pytest.mark.parametrize(("bonus", "outcome"), [(0, Outcome.OUT_OF_TURNS), (1, Outcome.WON)])
async def test_an_episode_that_was_cut_off_is_graded(listed, bonus, outcome):
    """Two turns: with a head start of 1 the goal of 3 is reached."""
    task = listed.tasks("", "train", 1, progress=False)[0]
    async with EnvPool("listed", 1, 20.0, settings={**SETTINGS, "bonus": bonus}) as pool:
        session = await pool.open()
        spec = EpisodeSpec(task, registry.make_environment("listed").prompt, 2, Sparse(), grade_unfinished=True)
        episode = await run_episode(Adder(), session, spec, None)
        assert episode.outcome is outcome
        assert [turn.rewards["sparse"] for turn in episode.turns] == [0, float(bonus)]
        assert episode.turns[-1].info == {"count": 2 + bonus}
        assert episode.turns[-1].score_delta == bonus
        with pytest.raises(EnvError, match="no episode is open"):
            await session.finish()


async def test_a_worker_that_dies_before_the_grading_costs_nothing(listed):
    task = listed.tasks("", "train", 1, progress=False)[0]
    async with EnvPool("listed", 1, 20.0, settings=SETTINGS) as pool:
        session = await pool.open()
        await session.reset(task, 0)
        for _ in range(3):
            await session.step("add")
        os.kill(pool.pids[0], signal.SIGKILL)
        assert (await session.finish()).won
