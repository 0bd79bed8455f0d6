"""A real instruct model in the study's other two environments: two RL steps each, on real games and
real tests."""

from pathlib import Path

import pytest
import small

from turngrid.experiments.evaluation.result import RunResult
from turngrid.rollouts.store import read_episodes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SETTINGS = (
    "model=smollm2_135m",
    "budget=rl_only",
    "budget.units=4",
    "budget.sft_share=0",
    "budget.rl_steps=2",
    "data.train_batch_size=2",
    "actor_rollout_ref.rollout.n=2",
    "actor_rollout_ref.actor.ppo_mini_batch_size=2",
    "env.max_turns=3",
    "eval.games=2",
)
ENVIRONMENTS = {"alfworld": ("algo=rloo", "sparse"), "repo_repair": ("algo=grpo", "ratio")}


@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_two_steps(env: str, tmp_path: Path) -> None:
    algo, reward = ENVIRONMENTS[env]
    run = small.finish(tmp_path, *SETTINGS, f"env={env}", algo, f"reward={reward}", timeout_s=1500)
    result = RunResult.read(run)
    assert result is not None and [stage.name for stage in result.stages] == ["base", "rl"]
    assert [line["step"] for line in small.lines(run / "rl" / "metrics.jsonl")] == [1, 2]
    episodes = [episode for step in (1, 2) for episode in read_episodes(run / "rl" / "episodes" / f"{step:06d}.jsonl")]
    assert len(episodes) == 8
    assert {len(episode.turns) for episode in episodes} <= {1, 2, 3}
    assert all(reward in turn.rewards for episode in episodes for turn in episode.turns)
    if env == "repo_repair":  # cut off after three turns, and graded all the same
        assert all(episode.turns[-1].info["tests"]["f2p"] > 0 for episode in episodes)
