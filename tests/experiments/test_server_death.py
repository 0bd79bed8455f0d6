"""A whole run whose rollout server is killed in its second step, and whose context is too small for
its turns.

The run ends and says why. The same command goes on from the last checkpoint.
"""

from pathlib import Path

import psutil
import pytest
import small
import torch
from transformers import AutoModelForCausalLM

pytestmark = pytest.mark.slow
ROOM = 150  # tokens after the first prompt: three turns or so of the six


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("death")
    settings = ("budget=rl_only", "budget.sft_share=0", f"data.max_response_length={ROOM}", "eval.games=4")
    keep_all = ("trainer.max_actor_ckpt_to_keep=9",)
    process = small.launch(output, *settings, *keep_all)
    try:
        small.wait_for(lambda: bool(list(output.glob("*/rl/checkpoints/global_step_1/manifest.json"))), 900)
        family = psutil.Process(process.pid).children(recursive=True)
        (server,) = [child for child in family if "TransformersServer" in child.name()]
        server.kill()
        assert process.wait(timeout=900) != 0
    finally:
        if process.poll() is None:
            small.kill(process)
    assert "rollout server" in (output / "stdout.txt").read_text()
    return small.finish(output, *settings, *keep_all, timeout_s=900)


@pytest.mark.timeout(2000)
def test_the_run_goes_on_from_its_checkpoint(folder: Path) -> None:
    steps = small.lines(folder / "rl" / "metrics.jsonl")
    assert [line["step"] for line in steps] == [1, 2, 3]
    episodes = [e for step in (1, 2, 3) for e in small.lines(folder / "rl" / "episodes" / f"{step:06d}.jsonl")]
    assert len(episodes) == 48 and all(line["rollout/failed_groups"] == 0 for line in steps)


def test_the_new_server_samples_with_the_weights_of_the_step(folder: Path) -> None:
    for step in (2, 3):
        path = folder / "rl" / "checkpoints" / f"global_step_{step - 1}" / "actor" / "huggingface"
        model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        for episode in small.lines(folder / "rl" / "episodes" / f"{step:06d}.jsonl"):
            assert episode["policy_version"] == step - 1
            small.assert_sampled_by(model, episode)


def test_what_outgrows_the_context_is_counted_apart(folder: Path) -> None:
    for step in small.lines(folder / "rl" / "metrics.jsonl"):
        episodes = small.lines(folder / "rl" / "episodes" / f"{step['step']:06d}.jsonl")
        outgrown = [episode for episode in episodes if episode["outcome"] == "out_of_context"]
        assert step["rollout/out_of_context"] == pytest.approx(len(outgrown) / len(episodes)) and outgrown
        for episode in outgrown:
            response = sum(len(turn["action_ids"]) + len(turn["context_ids"]) for turn in episode["turns"])
            assert response <= ROOM, "no row is longer than it may be"
