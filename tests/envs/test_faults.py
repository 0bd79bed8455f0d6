"""``benchmarks.faults`` in small: real faults leave no trace in the records."""

import argparse
import asyncio

from benchmarks import faults

ARGS = argparse.Namespace(workers=2, at_once=8, seed=0)
RATES = faults.Rates(deaths=0.1, hangs=0.04, hostile=0.2, replay_every=5)
PART = faults.Part("textworld", "", 1.0, 4, 1.5)
EPISODES = 30


def test_faults_leave_no_trace(custom_games):
    played = asyncio.run(faults.run_part(PART, custom_games, EPISODES, RATES, ARGS))
    figures = played.figures()
    assert played.violations == []
    expected = {"kills": 3, "hangs": 1, "episodes": EPISODES, "replayed and equal": 6}
    assert {name: figures[name] for name in expected} == expected
    assert min(figures["won"], figures["hostile actions"]) >= 10
    assert f"{EPISODES:>14}" in faults.table([played])
