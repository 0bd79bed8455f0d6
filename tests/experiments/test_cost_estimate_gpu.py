"""Memory of GPUs that are not here: its arithmetic by hand, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from config.compose import Composer, composer
from experiments.cost_estimate import gpu
from records.models import gpus
from records.models.gpus import GpuError
from records.models.shape import Shape, shape_of

BILLION = Shape(parameters=10**9, layers=20, hidden=2048, vocabulary=32_000, head_size=128)


@pytest.fixture(scope="module")
def composed() -> Iterator[Composer]:
    with composer() as compose:
        yield compose


@pytest.mark.parametrize(
    ("text", "meant"),
    [("H100x8", ("H100", 8)), ("8xh100", ("H100", 8)), ("A100-40x2", ("A100-40", 2)), ("L40S", ("L40S", 1))],
)
def test_names(text: str, meant: tuple[str, int]) -> None:
    assert gpus.parse(text) == meant


@pytest.mark.parametrize(("text", "near"), [("H10x8", "H100"), ("A100_40", "A100-40"), ("H100x0", "H100")])
def test_a_wrong_name_is_answered_with_the_nearest(text: str, near: str) -> None:
    with pytest.raises(GpuError, match=f"did you mean {near}x8"):
        gpus.parse(text)


def test_memory_by_hand(composed: Composer) -> None:
    """12 bytes a parameter over 8 GPUs beside vLLM's 60 % of 80 GB; 2 GB for CUDA."""

    def needed(number: int, *words: str) -> float:
        return gpu.memory_bytes(composed(["model=qwen2.5_1.5b", "cluster=gpu8", *words]), ("H100", number), BILLION)

    assert needed(8, "algo=grpo") == pytest.approx(12e9 / 8 + 0.6 * 80e9 + 2e9)
    assert needed(8, "algo=ppo") == pytest.approx(24e9 / 8 + 0.6 * 80e9 + 2e9)
    offload = [f"actor_rollout_ref.actor.fsdp_config.{what}_offload=true" for what in ("param", "optimizer")]
    assert needed(1, *offload) == pytest.approx(0.6 * 80e9 + 2e9)
    plain = ["rollout=transformers", "actor_rollout_ref.model.enable_gradient_checkpointing=false"]
    assert needed(8, *plain) == pytest.approx(16e9 / 8 + 16384 * (34 * 20 * 2048 + 8 * 32_000) + 2e9 + 2e9)
    assert needed(8, plain[0]) == pytest.approx(16e9 / 8 + 16384 * (2 * 20 * 2048 + 8 * 32_000) + 2e9 + 2e9)


def test_memory_with_lora_by_hand(composed: Composer) -> None:
    """Rank 16 on all linear layers of Qwen2.5-1.5B: 18,464,768 numbers, 16 bytes each; 4 a frozen parameter, and a critic's 16."""
    words = ["model=qwen2.5_1.5b", "cluster=gpu8", "rollout=transformers", "model.lora_rank=16"]
    words.append("actor_rollout_ref.actor.ppo_max_token_len_per_gpu=16384")
    adapter, rest = 18_464_768, 16384 * (2 * 20 * 2048 + 8 * 32_000) + 2e9 + 2e9
    found = [gpu.memory_bytes(composed([*words, f"algo={algo}"]), ("H100", 8), BILLION) for algo in ("grpo", "ppo")]
    assert found == pytest.approx([(4e9 + 16 * adapter) / 8 + rest, (20e9 + 16 * adapter) / 8 + rest])


@pytest.mark.parametrize("model", ["qwen2.5_7b", "qwen3_8b"])
def test_the_papers_largest_models_fit_on_one_node(composed: Composer, model: str) -> None:
    """PPO trains a critic of the same size; 8 x 80 GB is what the study had."""
    config = composed([f"model={model}", "cluster=gpu8", "algo=ppo"])
    shape = shape_of(config.model.path)
    assert shape is not None
    assert 65e9 < gpu.memory_bytes(config, ("H100", 8), shape) < 76e9
    assert gpu.problems(config, ("H100", 8), shape) == []
    assert gpu.problems(config, ("A100-40", 8), shape) != []
