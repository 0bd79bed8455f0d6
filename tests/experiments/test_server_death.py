"""Runs of which a process is killed, or hangs, end and say why; the same command goes on."""

import json
import subprocess
from pathlib import Path

import psutil
import pytest
import small
import torch
from transformers import AutoModelForCausalLM

from turngrid.records.process.exit_codes import FAILED
from turngrid.verl_plugin.training.watchdog import BETWEEN

pytestmark = pytest.mark.slow
ROOM = 150  # tokens after the first prompt: three turns or so of the six
WORDS = ("budget=rl_only", "budget.sft_share=0", "budget.rl_steps=2", "eval.games=1", "cluster.hung_after_s=15")


def process_of(run: subprocess.Popen[str], name: str) -> psutil.Process:
    family = psutil.Process(run.pid).children(recursive=True)
    return next(process for process in family if any(name in word for word in process.cmdline()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("death")
    words = ["budget=rl_only", "budget.sft_share=0", "eval.games=4", "trainer.max_actor_ckpt_to_keep=9"]
    words.append(f"data.max_response_length={ROOM}")
    process = small.launch(output, *words)
    try:
        small.wait_for(lambda: bool(list(output.glob("*/rl/checkpoints/global_step_1/manifest.json"))), 900)
        process_of(process, "ray::TransformersServer").kill()
        assert process.wait(timeout=900) != 0
    finally:
        if process.poll() is None:
            small.kill(process)
    assert "rollout server" in (output / "stdout.txt").read_text()
    return small.finish(output, *words, timeout_s=900)


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


# ---- a process that hangs


@pytest.mark.parametrize(
    ("name", "phases"),
    [("ray::TransformersServer", {"gen", BETWEEN}), ("ray::WorkerDict", {"checkpoint", "update_actor", BETWEEN})],
)
def test_it_ends_with_stacks_and_the_same_command_goes_on(name: str, phases: set[str], tmp_path: Path) -> None:
    """The process is stopped when the first step is over."""
    run = small.launch(tmp_path, *WORDS)
    small.wait_for(lambda: bool(list(tmp_path.glob("*/rl/metrics.jsonl"))), 400)
    process_of(run, name).suspend()
    assert run.wait(timeout=400) == FAILED
    folder = small.run_folder(tmp_path)
    message = json.loads((folder / "failure.json").read_text())["message"]
    assert any(f"{phase}: it has not ended in 60 s" in message for phase in phases), message
    stacks = [file.read_text() for file in (folder / "logs" / "stacks").iterdir()]
    assert len(stacks) > 2 and any("trainer.py" in text for text in stacks), message
    assert small.finish(tmp_path, *WORDS) == folder
    assert [line["step"] for line in small.lines(folder / "rl" / "metrics.jsonl")] == [1, 2]
