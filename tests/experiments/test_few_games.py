"""A step may have more prompts than the budget buys games: they come several times in it, and are
charged once."""

from collections import Counter
from pathlib import Path

import pytest
import small

pytestmark = pytest.mark.slow


@pytest.mark.timeout(900)
def test_a_run_with_fewer_games_than_prompts_a_step(tmp_path: Path) -> None:
    few = ("budget=rl_only", "budget.sft_share=0", "budget.units=2", "budget.rl_steps=2", "eval.games=1")
    folder = small.finish(tmp_path, *few, timeout_s=800)
    for step in (1, 2):
        episodes = small.lines(folder / "rl" / "episodes" / f"{step:06d}.jsonl")
        assert Counter(episode["seed"] for episode in episodes) == {30001: 8, 30002: 8}
    assert sum(entry["units"] for entry in small.lines(folder / "ledger.jsonl")) == 2
