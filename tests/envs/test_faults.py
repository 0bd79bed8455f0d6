"""``benchmarks.faults`` in small: real faults leave no trace in the records, and each of its checks
finds what it is for."""

import argparse
import asyncio
from collections import Counter

import pytest

from benchmarks import faults
from benchmarks.fault_policies import draw_faults

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


def test_faults_come_in_the_shares_asked_for():
    keys = [("game", sample) for sample in range(1000)]
    drawn = draw_faults(keys, 0.01, 0.005, seed=0)
    assert Counter(fault.kind for fault in drawn.values()) == {"kill": 10, "hang": 5}
    assert drawn == draw_faults(keys, 0.01, 0.005, seed=0) != draw_faults(keys, 0.01, 0.005, seed=1)
