"""``benchmarks.scale`` in small: all of its episodes go through the real agent loop, and its limit
is what a hand computes."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.scale import Load, limit, local_ray, measure, needs, row

LOAD = Load("idle", episodes=8, workers=1, turns=3, tokens=600, latency=0.5)


def test_the_limit_by_hand() -> None:
    """1,024 episodes of 16 turns of 4 s: all end after 64 s."""
    assert limit(1024, turns=16, latency=4.0) == 16.0
    assert replace(LOAD, episodes=12).limit == 8.0


def test_the_page_shows_what_the_arithmetic_gives() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text(encoding="utf-8")
    assert "\n".join(needs(agent_ms=1.9, environment_ms=0.9)) in page


@pytest.mark.slow  # starts a Ray of its own: 15 CPU s
def test_it_plays_all_episodes_and_none_faster_than_the_limit() -> None:
    with local_ray():
        found = measure(LOAD)
    assert found.limit == pytest.approx(8 / (3 * 0.5)) and found.latency >= 0.5
    assert 0 < found.episodes_per_s < found.limit and found.share == pytest.approx(found.episodes_per_s / found.limit)
    assert 0.8 * LOAD.tokens < found.tokens < 1.3 * LOAD.tokens
    assert found.agent_cpu_ms > 0 and row(LOAD, found).startswith("| idle | 8 | 1 |")
