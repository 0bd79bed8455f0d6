"""Runs with LoRA: SFT, RL with a KL loss, evaluation; the same killed and resumed; and PPO."""

from pathlib import Path

import pytest
import small

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]
SECONDS = 1500  # of a run, on a machine that has others
LORA = ("model.lora_rank=8", "actor_rollout_ref.actor.use_kl_loss=true")
LORA += ("shaping=[invalid_action]",)  # which gives every step something to learn
LORA += ("algorithm.rollout_correction.bypass_mode=false",)  # the trainer computes the log-probs anew
ROUNDING = 1e-4  # of probabilities: the server's of merged weights, the trainer's of base and adapter


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.finish(tmp_path_factory.mktemp("lora"), *LORA, timeout_s=SECONDS)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With -9, once the checkpoint of the second RL step was whole."""
    output = tmp_path_factory.mktemp("killed")
    process = small.launch(output, *LORA)
    small.wait_for(lambda: bool(list(output.glob("*/rl/checkpoints/global_step_2/manifest.json"))), SECONDS)
    small.kill(process)
    assert not list(output.glob("*/rl/checkpoints/global_step_3/manifest.json")), "killed too late to show anything"
    return small.finish(output, *LORA, timeout_s=SECONDS)


def test_the_server_plays_with_what_is_trained_and_the_reference_is_the_model_without_adapters(run: Path) -> None:
    """With which RL begins: its first update, the only one of its step, has no KL at all."""
    lines = small.lines(run / "rl" / "metrics.jsonl")
    assert all(line["verl/training/rollout_probs_diff_max"] < ROUNDING for line in lines)
    first, _, last = (line["actor/kl_loss"] for line in lines)
    assert first == 0 < last


def test_a_killed_run_ends_with_the_same_bytes(run: Path, killed: Path) -> None:
    actor, adapter = "rl/checkpoints/global_step_3/actor", "lora_adapter/adapter_model.safetensors"
    for name in (f"{actor}/huggingface/model.safetensors", f"{actor}/{adapter}", f"sft/{adapter}"):
        assert (run / name).read_bytes() == (killed / name).read_bytes(), name
    small.assert_same_rl(killed, run)


def test_ppo_with_kl_trains_its_critic_whole(tmp_path: Path) -> None:
    """verl leaves the actor's ``no_lora_adapter`` in the batch; the critic has no adapter."""
    short = ("algo=ppo", "budget=rl_only", "budget.sft_share=0", "budget.rl_steps=2", "eval.games=2")
    run = small.finish(tmp_path, *LORA, *short, timeout_s=SECONDS)
    lines = small.lines(run / "rl" / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2]
    assert all(line["verl/training/rollout_probs_diff_max"] < ROUNDING for line in lines)
    assert all("critic/vf_loss" in line and line["actor/kl_loss"] >= 0 for line in lines)
