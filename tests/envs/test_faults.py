"""``benchmarks.faults`` in small: real faults leave no trace in the records, and each of its checks
finds what it is for."""

import argparse
import asyncio
import copy
from collections import Counter

import pytest

from benchmarks import fault_checks as checks
from benchmarks import faults
from benchmarks.fault_policies import draw_faults
from turngrid.envs.hosting.pool import EnvPool, Session
from turngrid.rollouts.episode import Outcome

ARGS = argparse.Namespace(workers=2, at_once=8, seed=0)
RATES = faults.Rates(deaths=0.1, hangs=0.04, hostile=0.2, replay_every=5)
PART = faults.Part("textworld", "", 1.0, 4, 1.5)
EPISODES = 30


@pytest.fixture(scope="module")
def played(custom_games):
    return asyncio.run(faults.run_part(PART, custom_games, EPISODES, RATES, ARGS))


def test_faults_leave_no_trace(played):
    figures = played.figures()
    assert played.violations == []
    assert (figures["kills"], figures["hangs"], figures["episodes"], figures["replayed and equal"]) == (
        3,
        1,
        EPISODES,
        6,
    )
    assert figures["won"] >= 10
    assert figures["hostile actions"] >= 10
    assert f"{EPISODES:>14}" in faults.table([played])


def drop(episodes):
    del episodes[7]


def double(episodes):
    episodes.append(copy.deepcopy(episodes[7]))


def fail(episodes):
    episodes[7].outcome, episodes[7].error = Outcome.ERROR, "the game failed"


def swap(episodes):
    episodes[4].turns, episodes[5].turns = episodes[5].turns, episodes[4].turns


def other_text(episodes):
    episodes[5].turns[1].observation = episodes[6].turns[1].observation


def other_end(episodes):
    episodes[5].final_observation = "another's last words"


def other_score(episodes):
    episodes[5].turns[0].score_delta += 1


@pytest.mark.parametrize("spoil", [drop, double, fail, swap, other_text, other_end, other_score])
def test_broken_records_are_found(spoil, played, custom_games):
    """The records were sound before. Every fifth is replayed; number 5 is among them, and number 7
    is not."""
    episodes = copy.deepcopy(played.episodes)
    said = {checks.key_of(one): [(turn.observation, turn.action) for turn in one.turns] for one in episodes}
    specs = faults.specs_of("textworld", custom_games, EPISODES)
    spoil(episodes)
    assert asyncio.run(faults.check("textworld", specs, episodes, said, 5))[1]


def test_a_pool_that_takes_one_game_for_another_is_found(custom_games, monkeypatch):
    """All sessions of a worker play in one game, as if their numbers were lost."""
    opened = EnvPool.open

    async def open_as_one(pool: EnvPool) -> Session:
        session = await opened(pool)
        session._number = 1
        return session

    monkeypatch.setattr(EnvPool, "open", open_as_one)
    calm = faults.Rates(deaths=0.0, hangs=0.0, replay_every=5)
    assert asyncio.run(faults.run_part(PART, custom_games, 12, calm, ARGS)).violations


def test_faults_come_in_the_shares_asked_for():
    keys = [("game", sample) for sample in range(1000)]
    drawn = draw_faults(keys, 0.01, 0.005, seed=0)
    assert Counter(fault.kind for fault in drawn.values()) == {"kill": 10, "hang": 5}
    assert drawn == draw_faults(keys, 0.01, 0.005, seed=0) != draw_faults(keys, 0.01, 0.005, seed=1)
