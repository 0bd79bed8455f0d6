"""A whole GRPO run with verl's vLLM server on a CPU (`make test-vllm-cpu`), which plays with the
weights that are trained."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
import small
import torch
from heads_of_32 import model_with_heads_of_32
from omegaconf import OmegaConf
from transformers import AutoModelForCausalLM

from turngrid.experiments import evaluate
from turngrid.experiments.export.__main__ import main as export
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.store import read_episodes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]
if not find_spec("vllm"):
    pytest.skip("vLLM is not installed: make test-vllm-cpu", allow_module_level=True)

STEPS, TURNS = 3, 10
BOUND = 1e-4  # nats
WORDS = ("rollout=vllm", "data.train_batch_size=8", "actor_rollout_ref.rollout.n=8", f"env.max_turns={TURNS}")
WORDS += ("eval.temperatures=[0]", "trainer.max_actor_ckpt_to_keep=9")  # some groups win and lose


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = model_with_heads_of_32(tmp_path_factory.mktemp("model"))
    return small.finish(tmp_path_factory.mktemp("runs"), *WORDS, f"model.path={model}", timeout_s=2000)


def weights(run: Path, step: int) -> Path:
    """Before the first step they are those of SFT."""
    trained = run / "rl" / "checkpoints" / f"global_step_{step}" / "actor" / "huggingface"
    return trained if step else run / "sft" / "model"


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_sampled_tokens_have_the_logprobs_of_the_weights_before(run: Path, step: int) -> None:
    model = AutoModelForCausalLM.from_pretrained(weights(run, step - 1), dtype=torch.float32)
    episodes = small.lines(run / "rl" / "episodes" / f"{step:06d}.jsonl")
    temperature = OmegaConf.load(run / "rl" / "config.yaml").actor_rollout_ref.rollout.temperature
    assert len(episodes) == 64
    for episode in episodes:
        small.assert_sampled_by(model, episode, temperature, BOUND)


def test_vllm_plays_with_what_lora_has_learned(tmp_path: Path) -> None:
    """The server's probabilities are those that the trainer computes of base and adapter."""
    model = model_with_heads_of_32(tmp_path / "model")
    lora = ("model.lora_rank=8", "algorithm.rollout_correction.bypass_mode=false", "shaping=[invalid_action]")
    short = ("budget=rl_only", "budget.sft_share=0", "budget.rl_steps=2", "eval.games=2")
    run = small.finish(tmp_path, "rollout=vllm", f"model.path={model}", *lora, *short, timeout_s=1500)
    lines = small.lines(run / "rl" / "metrics.jsonl")
    assert [line["verl/training/rollout_probs_diff_max"] < BOUND for line in lines] == [True, True]


@contextmanager
def vllm_serve(model: Path, log: Path) -> Iterator[str]:
    """docs/export.md's command, in fp32 and with little memory: the endpoint's address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve = [str(Path(sys.executable).with_name("vllm")), "serve", str(model), "--served-model-name", model.name]
    little = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    with log.open("w") as told:
        server = subprocess.Popen(
            [*serve, "--host=127.0.0.1", f"--port={port}", "--enforce-eager", "--dtype=float32"],
            env={**os.environ, **little},
            stdout=told,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        small.wait_for(lambda: server.poll() is not None or answers(port), 1200)
        assert server.poll() is None, log.read_text()[-3000:]
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        with suppress(ProcessLookupError):  # it has ended, which the log above tells the reason of
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def answers(port: int) -> bool:
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).status == 200
    except OSError:
        return False


def test_the_exported_folder_plays_the_same_behind_vllm_serve(run: Path, tmp_path: Path) -> None:
    """Greedily, in the run's test games: as in the run's own evaluation."""
    model = tmp_path / "my-model"
    assert export([str(run), "--to", str(model)]) == 0
    words = ["env=textworld", "eval.games=8", f"eval.max_turns={TURNS}", "eval.temperatures=[0]"]
    with vllm_serve(model, tmp_path / "vllm.log") as endpoint:
        words += [f"endpoint={endpoint}", f"endpoint_model={model.name}", f"output_dir={tmp_path}"]
        assert evaluate.main(words) == 0
    (file,) = tmp_path.glob("evaluations/*/evaluation/*.jsonl")
    served, own = ({e.task: e for e in read_episodes(path)} for path in (file, run / "evaluation" / "rl.jsonl"))
    assert len(own) == 8
    assert {task: acted(e) for task, e in served.items()} == {task: acted(e) for task, e in own.items()}


def acted(episode: Episode) -> tuple[object, ...]:
    return episode.outcome, [turn.action for turn in episode.turns]
