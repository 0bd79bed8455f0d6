"""Memory of GPUs that are not here: its arithmetic by hand, and what is refused."""

import re

import pytest
from omegaconf import DictConfig

from turngrid.config import machine
from turngrid.config.checks.check import check
from turngrid.config.compose import Composer
from turngrid.config.errors import ConfigError
from turngrid.experiments.cost_estimate import estimate, memory
from turngrid.experiments.cost_estimate.memory import demand
from turngrid.records.models import gpus
from turngrid.records.models.gpus import GpuError
from turngrid.records.models.shape import Shape, shape_of

BILLION = Shape(parameters=10**9, layers=20, hidden=2048, vocabulary=32_000, head_size=128)


def place(name: str, number: int) -> memory.Devices:
    return memory.Devices(name, number, gpus.memory(name))


def memory_bytes(config: DictConfig, card: tuple[str, int], shape: Shape) -> float:
    return demand(config, shape, place(*card)).peak()


def problems(config: DictConfig, card: tuple[str, int], shape: Shape) -> list[str]:
    return memory.problems(config, shape, place(*card))


def test_names() -> None:
    texts = {"RTX4090": ("RTX4090", 1), "rtx3090x2": ("RTX3090", 2), "48gbx2": ("48GB", 2), "8xh100": ("H100", 8)}
    assert {text: gpus.parse(text) for text in texts} == texts and gpus.parse("A100-40x2") == ("A100-40", 2)
    for text, near in (("H10x8", "H100"), ("A100_40", "A100-40"), ("H100x0", "H100")):
        with pytest.raises(GpuError, match=f"use {near}x8"):
            gpus.parse(text)


def test_memory_by_hand(composed: Composer) -> None:
    """12 bytes a parameter over 8 GPUs beside vLLM's 60 % of 80 GB, 50 % where there is a critic; 2
    GB for CUDA."""

    def needed(number: int, *words: str) -> float:
        return memory_bytes(composed(["model=qwen2.5_1.5b", "cluster=gpu8", *words]), ("H100", number), BILLION)

    assert needed(8, "algo=grpo") == pytest.approx(12e9 / 8 + 0.6 * 80e9 + 2e9)
    assert needed(8, "algo=ppo") == pytest.approx(24e9 / 8 + 0.5 * 80e9 + 2e9)
    offload = [f"actor_rollout_ref.actor.fsdp_config.{what}_offload=true" for what in ("param", "optimizer")]
    assert needed(1, *offload) == pytest.approx(0.6 * 80e9 + 2e9)
    plain = ["rollout=transformers", "actor_rollout_ref.model.enable_gradient_checkpointing=false"]
    assert needed(8, *plain) == pytest.approx(16e9 / 8 + 24576 * (34 * 20 * 2048 + 8 * 32_000) + 2e9 + 2e9)
    assert needed(8, plain[0]) == pytest.approx(16e9 / 8 + 24576 * (2 * 20 * 2048 + 8 * 32_000) + 2e9 + 2e9)


def test_memory_with_lora_by_hand(composed: Composer) -> None:
    """Rank 16 on all linear layers of Qwen2.5-1.5B: 18,464,768 numbers, 16 bytes each; 4 a frozen
    parameter, and a critic's 16."""
    words = ["model=qwen2.5_1.5b", "cluster=gpu8", "rollout=transformers", "model.lora_rank=16"]
    words.append("actor_rollout_ref.actor.ppo_max_token_len_per_gpu=16384")
    adapter, rest = 18_464_768, 16384 * (2 * 20 * 2048 + 8 * 32_000) + 2e9 + 2e9
    found = [memory_bytes(composed([*words, f"algo={algo}"]), ("H100", 8), BILLION) for algo in ("grpo", "ppo")]
    assert found == pytest.approx([(4e9 + 16 * adapter) / 8 + rest, (20e9 + 16 * adapter) / 8 + rest])


SHARE = "actor_rollout_ref.rollout.gpu_memory_utilization"
HALF = ["model=qwen2.5_0.5b", "cluster=gpu1", "budget=rl_only", "scale=first"]


def test_the_review_by_hand(composed: Composer) -> None:
    """0.5B on 24 GB: 16 bytes x 0.494e9 + 8,192 tokens x (8 x 151,936 + 2 x 24 x 896) bytes + 2 GB
    = 20.2 GB; with fused kernels 512 tokens x 24 x 151,936 bytes, so 12.1 GB, and sampling needs
    more: 12 bytes x 0.494e9 + 0.4 x 24 GB + 2 GB = 17.5 GB."""
    config, card = composed([*HALF, "estimate_gpu=RTX4090"]), ("RTX4090", 1)
    shape = shape_of(config.model.path)
    assert shape is not None and shape.cached_numbers * 2 == 12_288
    assert memory_bytes(config, card, shape) == pytest.approx(12 * shape.parameters + 0.4 * 24e9 + 2e9)
    expected = 16 * shape.parameters + 512 * 24 * 151_936 + 8192 * 2 * 24 * 896 + 2e9
    served = composed([*HALF, "estimate_gpu=RTX4090", f"{SHARE}=0.1"])
    assert memory_bytes(served, card, shape) == pytest.approx(expected) == pytest.approx(12.1e9, rel=0.01)
    assert problems(config, card, shape) == []


def test_all_that_is_offloaded_lies_elsewhere(composed: Composer) -> None:
    config = composed([*HALF, "estimate_gpu=24GB", f"{memory.ACTOR}.fsdp_config.offload_policy=true", f"{SHARE}=0.08"])
    passes = 8192 * 2 * 20 * 2048 + 512 * 24 * 32_000
    assert memory_bytes(config, ("24GB", 1), BILLION) == pytest.approx(passes + 16 * 32_000 * 2048 + 2e9)
    assert demand(config, BILLION, place("24GB", 1)).states(0) == 16e9


@pytest.mark.parametrize(
    ("words", "card", "number"),
    [
        ("model=qwen2.5_1.5b cluster=gpu1", "RTX4090", 1),
        ("model=qwen2.5_1.5b cluster=gpu1 algo=ppo actor_rollout_ref.actor.ppo_max_token_len_per_gpu=65536", "A100", 1),
        ("model=qwen2.5_1.5b cluster=gpu1 actor_rollout_ref.rollout.gpu_memory_utilization=0.9", "H100", 1),
        ("model=qwen2.5_7b cluster=gpu8 algo=ppo", "A100-40", 8),
    ],
)
def test_what_is_suggested_fits(composed: Composer, words: str, card: str, number: int) -> None:
    """The suggested words, given to the same command, are composed, checked, and no longer
    refused."""
    asked = [*words.split(), f"estimate_gpu={card}x{number}"]
    config = composed(asked)
    shape = shape_of(config.model.path)
    assert shape is not None
    problem = problems(config, (card, number), shape)[-1]
    for change in re.sub(r" \(.*\)", "", problem.split("what fits: ")[1]).split("; or "):
        advised = change.split()
        changed = composed([*[word for word in asked if word.split("=")[0] not in change], *advised])
        assert check(changed) is not None
        assert problems(changed, (card, number), shape) == []


def test_longer_episodes_need_more(composed: Composer) -> None:
    """vLLM must hold the keys and values of one whole row, whose length follows from the lengths of
    prompt and response."""
    config = composed([*HALF, "estimate_gpu=24GB", "data.max_response_length=29000", "model.context=32768"])
    problem = problems(config, ("6GB", 1), BILLION)[-1]
    assert "for one episode of 32072 tokens" in problem and "or offloading makes it fit" in problem


def test_a_run_that_does_not_fit_here_never_starts(composed: Composer, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(machine, "here", lambda: gpus.GPUS["RTX4090"])
    estimate.check(composed(HALF), said.append)
    assert "18 of a GPU's 24GB needed" in said[0]
    with pytest.raises(ConfigError, match="30 GB a GPU needed, 24 GB there.*offload_policy=true"):
        estimate.check(composed(["model=qwen2.5_1.5b", "cluster=gpu1"]), said.append)
    monkeypatch.setattr(machine, "here", lambda: None)
    estimate.check(composed(HALF), said.append)
    assert "cluster.gpu_memory_gb" in said[-1]
