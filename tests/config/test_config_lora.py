"""``model.lora_rank``: what follows from it for every stage and server, and what is refused before
anything starts."""

import json
from pathlib import Path

import pytest
import torch
from omegaconf import DictConfig, OmegaConf
from safetensors.torch import save_file
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config

from turngrid.config.base import ROOT
from turngrid.config.checks.check import check
from turngrid.config.compose import Composer
from turngrid.config.errors import ConfigError
from turngrid.config.lora import adapter_parameters, far_lr
from turngrid.experiments.stages.rl import rl_config
from turngrid.experiments.stages.sft import sft_config
from turngrid.records.models.locate import resolve_model
from turngrid.records.models.shape import PUBLISHED, from_config, linears
from turngrid.tasks.run import Run

ACTOR = "actor_rollout_ref"
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
GPU = ("cluster=gpu1", "model=qwen2.5_7b", "rollout=vllm")
SEPARATE = ("trainer.v1.trainer_mode=separate_async", f"{ACTOR}.rollout.nnodes=1", f"{ACTOR}.rollout.n_gpus_per_node=1")
NCCL = f"{ACTOR}.rollout.checkpoint_engine.backend=nccl"


def rates(config: DictConfig) -> tuple[float, float]:
    return config.actor_rollout_ref.actor.optim.lr, config.model.sft.lr


def of_rl(config: DictConfig) -> DictConfig:
    return rl_config(Run(config, Path("/runs/name")), Run(config).allocation, resolve_model("asset://tiny", Path()))


@pytest.mark.parametrize(
    ("words", "full"),
    [(["model=tiny"], (4e-4, 1e-4)), (["model=qwen2.5_7b", "algo=ppo", "cluster=gpu1"], (5e-7, 1e-6))],
)
def test_rates_are_ten_times_the_full_ones(composed: Composer, words: list[str], full: tuple[float, float]) -> None:
    assert rates(composed(words)) == full
    assert rates(composed([*words, "model.lora_rank=16"])) == tuple(float(f"{10 * rate:.3g}") for rate in full)


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        (f"{ACTOR}.actor.optim.lr=4e-4", "4e-03"),  # tiny's full rates
        ("model.sft.lr=1e-4", "1e-03"),
        (f"model=qwen2.5_7b cluster=gpu1 scale=first {ACTOR}.actor.optim.lr=2e-6", "2e-05"),
        ("algo=ppo model=qwen2.5_7b cluster=gpu1", None),
    ],
)
def test_a_learning_rate_far_from_ours_is_noted(composed: Composer, words: str, ours: str | None) -> None:
    """A rate that is typed is used as it is."""
    note = next(far_lr(Run(composed([*words.split(), "model.lora_rank=16"]))), None)
    key = words.split()[-1].split("=")[0]
    assert note == ours or (note and ours and f"use {key}={float(ours):g}" in note)
    assert list(far_lr(Run(composed(words.split())))) == []


def test_both_stages_are_told(composed: Composer) -> None:
    """RL's actor and SFT the same; a critic nothing."""
    config = composed(["algo=ppo", "model.lora_rank=8", "model.lora_target_modules=[v_proj,q_proj]"])
    sft = sft_config(Run(config, Path("/runs/name")), Path("/demos.jsonl"), "/base").verl.model
    for told in (of_rl(config).actor_rollout_ref.model, sft):
        assert (told.lora_rank, told.lora_alpha, told.target_modules) == (8, 32, ["v_proj", "q_proj"])
    assert of_rl(config).critic.model.lora_rank == 0


@pytest.mark.parametrize(
    ("words", "merge"),
    [
        (("rollout=vllm",), True),  # on a CPU all is fp32
        (GPU, False),
        ((*GPU, *SEPARATE, NCCL), True),  # verl never sends an adapter there
        ((*GPU, "trainer.v1.trainer_mode=colocate_async"), False),
    ],
)
def test_who_gets_merged_weights_and_verl_accepts_all(composed: Composer, words: tuple[str, ...], merge: bool) -> None:
    config = composed([*words, "model.lora_rank=16"])
    check(config)
    assert of_rl(composed(list(words))).actor_rollout_ref.model.lora.merge is False
    told = of_rl(config)
    assert told.actor_rollout_ref.model.lora.merge is merge
    if not merge:
        # with vLLM's name verl asks vLLM, which is not here, which ranks it has
        told.actor_rollout_ref.rollout.name = "sglang"
    validate_config(told, use_reference_policy=need_reference_policy(told), use_critic=need_critic(told))


def test_a_mixture_of_experts_is_refused(composed: Composer, tmp_path: Path) -> None:
    settings = json.loads((ROOT / "assets" / "tiny" / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**settings, "num_experts": 8}))
    with pytest.raises(ConfigError, match="^model.lora_rank=8.* use model.lora_rank=null"):
        check(composed(["model.lora_rank=8", f"model.path={tmp_path}"]))


# ---- sizes


def test_adapters_are_as_large_as_published(composed: Composer) -> None:
    """Rank 16 on all linear layers of Qwen2.5-7B: PEFT's trainable parameters, 40,370,176."""
    shape = from_config(PUBLISHED["Qwen/Qwen2.5-7B-Instruct"])
    config = composed([*GPU, "model.lora_rank=16"])
    assert adapter_parameters(config, shape) == 40_370_176
    some = composed([*GPU, "model.lora_rank=16", "model.lora_target_modules=[q_proj,o_proj]"])
    assert adapter_parameters(some, shape) == 2 * 28 * 16 * (3584 + 3584)
    assert adapter_parameters(composed(list(GPU)), shape) == 0


def test_a_folders_layers_are_those_of_its_weights() -> None:
    """Of the tiny model, by its config."""
    settings = OmegaConf.load(ROOT / "assets" / "tiny" / "config.json")
    found, hidden = linears("asset://tiny"), settings.hidden_size
    assert found is not None and sorted(found) == sorted(ALL)
    assert found["gate_proj"] == settings.num_hidden_layers * (hidden + settings.intermediate_size)
    assert found["q_proj"] == settings.num_hidden_layers * (hidden + settings.num_attention_heads * settings.head_dim)
    assert linears("nobody/knows") is None


def test_layers_of_a_kind_that_no_table_has(tmp_path: Path) -> None:
    """By the headers of the weights in its folder."""
    (tmp_path / "config.json").write_text('{"model_type": "mistral"}')
    layers = {f"model.layers.{number}.self_attn.q_proj.weight": torch.zeros(8, 4) for number in range(2)}
    save_file({**layers, "lm_head.weight": torch.zeros(16, 4)}, tmp_path / "model.safetensors")
    assert linears(str(tmp_path)) == {"q_proj": 2 * (8 + 4)}
