"""A real instruct model, SmolLM2-135M, in all stages; and in RL on two other environments."""

from pathlib import Path

import pytest
import small
import torch
from safetensors.torch import load_file

from turngrid.experiments.evaluation.result import RunResult
from turngrid.rollouts.store import read_episodes

pytestmark = pytest.mark.slow
RL = "actor_rollout_ref"
TWO_STEPS = ("model=smollm2_135m", "budget.rl_steps=2", "env.max_turns=3", "eval.games=2")
TWO_STEPS += ("data.train_batch_size=2", f"{RL}.rollout.n=2", f"{RL}.actor.ppo_mini_batch_size=2")
RL_ONLY = (*TWO_STEPS, "budget=rl_only", "budget.units=4", "budget.sft_share=0")
ENVIRONMENTS = {"alfworld": ("algo=rloo", "sparse"), "repo_repair": ("algo=grpo", "ratio")}

EASY = ("model=smollm2_135m", "budget=sft_rl", "budget.rl_steps=3", "budget.rl_epochs=100", "eval.games=2")
EASY += ("budget.units=16", "budget.demo_cost=1", "budget.sft_share=0.5", f"{RL}.actor.optim.lr=3e-5")
EASY += ("env.task=w1-o2-q1", "env.max_turns=3", "env.max_action_tokens=12")


@pytest.mark.timeout(1800)
def test_the_reward_rises_within_three_steps(tmp_path: Path) -> None:
    """One action wins; 8 demonstrations, 64 episodes a step. Seen: 0.25, 0.61, 0.77."""
    run = small.finish(tmp_path, *EASY, usual=(), timeout_s=1500)
    first, second, third = [line["reward/trained/mean"] for line in small.lines(run / "rl" / "metrics.jsonl")]
    assert first < 0.5 and first + 0.1 < second and first + 0.25 < third


@pytest.mark.timeout(1800)
def test_it_is_trained_by_both_stages_in_its_own_tokens(tmp_path: Path) -> None:
    """49,152 entries and ChatML: an episode's ids are far beyond the tiny model's vocabulary."""
    run = small.finish(tmp_path, *TWO_STEPS, "budget=sft_rl", "env.max_action_tokens=12", timeout_s=1500)
    result = RunResult.read(run)
    assert result is not None and [stage.name for stage in result.stages] == ["base", "sft", "rl"]
    first, last = [line["sft/loss"] for line in small.lines(run / "sft" / "metrics.jsonl")]  # of two epochs
    assert 0 < last < first < 10
    assert [line["step"] for line in small.lines(run / "rl" / "metrics.jsonl")] == [1, 2]
    episodes = list(read_episodes(run / "rl" / "episodes" / "000001.jsonl"))
    assert len(episodes) == 4 and max(max(episode.prompt_ids) for episode in episodes) > 2_000
    assert all(turn.action for episode in episodes for turn in episode.turns)
    weights = load_file(run / "rl" / "checkpoints" / "global_step_2" / "actor" / "huggingface" / "model.safetensors")
    assert all(torch.isfinite(tensor).all() for tensor in weights.values())


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_two_steps(env: str, tmp_path: Path) -> None:
    algo, reward = ENVIRONMENTS[env]
    run = small.finish(tmp_path, *RL_ONLY, f"env={env}", algo, f"reward={reward}", timeout_s=1500)
    result = RunResult.read(run)
    assert result is not None and [stage.name for stage in result.stages] == ["base", "rl"]
    assert [line["step"] for line in small.lines(run / "rl" / "metrics.jsonl")] == [1, 2]
    episodes = [episode for step in (1, 2) for episode in read_episodes(run / "rl" / "episodes" / f"{step:06d}.jsonl")]
    assert len(episodes) == 8
    assert {len(episode.turns) for episode in episodes} <= {1, 2, 3}
    assert all(reward in turn.rewards for episode in episodes for turn in episode.turns)
    if env == "repo_repair":  # cut off after three turns, and graded all the same
        assert all(episode.turns[-1].info["tests"]["f2p"] > 0 for episode in episodes)
