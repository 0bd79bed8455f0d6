"""``benchmarks.faults`` in small: real faults leave no trace in the records, and each of its checks
finds what it is for."""

import argparse
import asyncio
import copy
from collections import Counter
from dataclasses import replace

import pytest

from benchmarks import fault_checks as checks
from benchmarks import faults
from benchmarks.fault_policies import draw_faults
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
    expected = {"kills": 3, "hangs": 1, "episodes": EPISODES, "replayed and equal": 6}
    assert {name: figures[name] for name in expected} == expected
    assert min(figures["won"], figures["hostile actions"]) >= 10
    assert f"{EPISODES:>14}" in faults.table([played])


def spoilt(episodes):
    """The ways in which records may be wrong. Every fifth is replayed; number 5 is among them, and
    number 7 is not."""
    yield [*episodes[:7], *episodes[8:]]
    yield [*episodes, episodes[7]]
    for number, changes in (
        (7, {"outcome": Outcome.ERROR, "error": "the game failed"}),
        (5, {"turns": episodes[4].turns}),
        (5, {"final_observation": "another's last words"}),
    ):
        yield [replace(one, **changes) if place == number else one for place, one in enumerate(episodes)]
    for changes in ({"observation": "another text"}, {"score_delta": 9.0}):
        changed = copy.deepcopy(episodes)
        vars(changed[5].turns[1]).update(changes)
        yield changed


def test_broken_records_are_found(played, custom_games):
    said = {checks.key_of(one): [(turn.observation, turn.action) for turn in one.turns] for one in played.episodes}
    specs = faults.specs_of("textworld", custom_games, EPISODES)
    for episodes in spoilt(played.episodes):
        assert asyncio.run(faults.check("textworld", specs, copy.deepcopy(episodes), said, 5))[1]


def test_faults_come_in_the_shares_asked_for():
    keys = [("game", sample) for sample in range(1000)]
    drawn = draw_faults(keys, 0.01, 0.005, seed=0)
    assert Counter(fault.kind for fault in drawn.values()) == {"kill": 10, "hang": 5}
    assert drawn == draw_faults(keys, 0.01, 0.005, seed=0) != draw_faults(keys, 0.01, 0.005, seed=1)
