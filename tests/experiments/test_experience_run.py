"""A run through the front door whose SFT learns from early experience too."""

from pathlib import Path

import pytest
import small

from turngrid.rollouts.store import read_episodes
from turngrid.tasks.early_experience import ASK

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]
SECONDS = 1500  # of a run, on a machine that has others
EXPERIENCE = ("budget.sft_share=1", "budget.units=12", "demos.experience=world_model", "demos.alternatives=2")
SFT = ("model.sft.epochs=3", "budget.episode_cost=0.5")


def test_what_the_model_did_in_the_experts_place_is_learned_from_and_charged(tmp_path: Path) -> None:
    """4 demonstrations at 2 + 2 x 0.5 units."""
    run = small.finish(tmp_path, *EXPERIENCE, *SFT, timeout_s=SECONDS)
    shown = {episode.task: episode for episode in read_episodes(run / "episodes" / "demonstrations.jsonl")}
    drawn = list(read_episodes(run / "episodes" / "alternatives.jsonl"))
    assert len(shown) == 4 and drawn
    for episode in drawn:
        number, (turn,) = len(episode.prefix), episode.turns
        expert = shown[episode.task].turns
        assert [turn.action for turn in episode.prefix] == [turn.action for turn in expert[:number]]
        assert turn.observation == expert[number].observation and turn.action != expert[number].action
        assert turn.sampled and turn.action_ids and episode.final_observation
    rows = list(read_episodes(run / "episodes" / "experience.jsonl"))
    assert [row.turns[0].action for row in rows] == [episode.final_observation for episode in drawn]
    assert all(row.turns[0].observation == ASK and row.turns[0].action_ids and row.prompt_ids for row in rows)
    assert len(small.lines(run / "sft" / "metrics.jsonl")) == 3, "as imitation: epochs of 4 rows in batches of 4"
    units = {line["kind"]: line["units"] for line in small.lines(run / "ledger.jsonl")}
    assert (units["demonstration"], units["alternative"]) == (8, 4)
