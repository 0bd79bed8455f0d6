"""Runs of which a process is killed, or hangs, end and say why; the same command goes on."""

import json
import os
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
    first = "*/rl/checkpoints/global_step_1/manifest.json"
    small.wait_in(process, output, lambda: bool(list(output.glob(first))), 900)
    process_of(process, "ray::TransformersServer").kill()
    small.wait_in(process, output, lambda: False, 900, code=FAILED)
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


def test_a_hung_server_ends_the_run_and_the_same_command_goes_on(tmp_path: Path) -> None:
    """The server is stopped when the first step is over."""
    run = small.launch(tmp_path, *WORDS)
    small.wait_for(lambda: bool(list(tmp_path.glob("*/rl/metrics.jsonl"))), 400)
    process_of(run, "ray::TransformersServer").suspend()
    message, _ = ended(run, tmp_path)
    assert any(f"{phase}: it has not ended in 60 s" in message for phase in ("gen", BETWEEN)), message


def test_a_hung_update_shows_where_it_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setenv("TURNGRID_TEST_ILLNESS", "hung_update")
        broken.setenv("PYTHONPATH", str(Path(__file__).parent / "doctor" / "breaking"), prepend=os.pathsep)
        run = small.launch(tmp_path, *WORDS)
    message, stacks = ended(run, tmp_path)
    assert "update_actor: it has not ended in 60 s" in message
    assert any("in hung_update" in text for text in stacks), message


def ended(run: subprocess.Popen[str], output: Path) -> tuple[str, list[str]]:
    """Return the reason and the stacks of a run that hung; the same command goes on."""
    assert run.wait(timeout=600) == FAILED
    folder = small.run_folder(output)
    message = json.loads((folder / "failure.json").read_text())["message"]
    stacks = [file.read_text() for file in (folder / "logs" / "stacks").iterdir()]
    for file in ("verl_plugin/training/trainer.py", "transfer_queue/storage/simple_storage.py"):
        assert any(file in text for text in stacks), message
    assert small.finish(output, *WORDS) == folder
    assert [line["step"] for line in small.lines(folder / "rl" / "metrics.jsonl")] == [1, 2]
    return message, stacks
