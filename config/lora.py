"""LoRA (docs/model.md): keys that follow from ``model.lora_rank``, and its checks.

verl's keys are set from ours. ``config/values/verl_limits.py`` refuses them on the command line,
since verl ignores some of them silently.
"""

from __future__ import annotations

from collections.abc import Iterator

from omegaconf import DictConfig, OmegaConf

from turngrid.config import asynchronous
from turngrid.config.errors import first
from turngrid.envs.extensions import CONF
from turngrid.envs.utils.names import meant
from turngrid.records.models.shape import Shape, has_experts, linears, settings_of

# Schulman et al., "LoRA Without Regret" (2025): alpha 32, all linear layers, ten times the learning
# rate of full training, whatever the rank, in SFT and RL alike
ALPHA = 32
LR_FACTOR = 10
LEARNING_RATES = ("actor_rollout_ref.actor.optim.lr", "model.sft.lr")
FULL_LR = 1e-6  # default for full training, if neither the model's option nor the scale's has one
FAR = 3  # factor above or below our learning rate that causes a warning
ALL = "all-linear"  # PEFT's word for all linear layers but the head


def lr(full: float, *, _root_: DictConfig) -> float:
    """Return a learning rate of ``conf/``, scaled if LoRA is on; one that the user sets is not
    scaled.
    """
    if not OmegaConf.select(_root_, "model.lora_rank"):
        return full
    return float(f"{LR_FACTOR * full:.6g}")  # gives 1e-05, not 9.999999999999999e-06


def far_lr(config: DictConfig) -> str | None:
    """Warn of a learning rate far from ours, often one for full training."""
    share, rank = config.budget.sft_share, config.model.lora_rank
    if not rank:
        return None
    for key, runs in zip(LEARNING_RATES, (share < 1, share > 0), strict=True):
        rate, ours = OmegaConf.select(config, key), LR_FACTOR * _full_lr(config, key)
        if runs and not ours / FAR <= rate <= ours * FAR:
            reason = f"with model.lora_rank={rank} ours is {ours:g}, {LR_FACTOR} times that of full training"
            return f"{key}={rate:g}: {reason}; use {key}={ours:g} (docs/model.md)"
    return None


def _full_lr(config: DictConfig, key: str) -> float:
    """Return the learning rate of full training: ``${lr:NUMBER}`` in the file of the model, else of
    the scale.
    """
    for group in ("model", "scale"):
        file = CONF / group / f"{config[group].name}.yaml"
        written = OmegaConf.select(OmegaConf.load(file), key) if file.exists() else None
        if written is not None:
            return float(written)
    return FULL_LR


def fill_in(config: DictConfig) -> None:
    """Resolve the learning rates, and set verl's keys."""
    for key in LEARNING_RATES:
        OmegaConf.update(config, key, OmegaConf.select(config, key))
    model, verls = config.model, config.actor_rollout_ref.model
    if model.lora_rank:
        model.lora_alpha = model.lora_alpha or ALPHA
        verls.lora_rank, verls.lora_alpha = model.lora_rank, model.lora_alpha
        verls.target_modules = list(model.lora_target_modules or []) or ALL


def merges(config: DictConfig) -> bool:
    """Return whether rollout servers get merged weights.

    vLLM on the trainer's GPUs gets the base once, then adapters. verl sends no adapters to a server
    with separate GPUs, and the transformers server does not accept any.
    """
    with_adapters = config.trainer.device == "cuda" and config.actor_rollout_ref.rollout.name == "vllm"
    return not with_adapters or asynchronous.mode(config) == asynchronous.SEPARATE


def adapter_parameters(config: DictConfig, shape: Shape) -> int:
    """Return the number of adapter parameters; 0 without LoRA.

    If the layers are unknown, it is the model's number. An unknown layer name counts 0; ``refusal``
    refuses it later.
    """
    if not config.model.lora_rank:
        return 0
    layers = linears(config.model.path)
    if not layers:
        return shape.parameters
    chosen = config.model.lora_target_modules or layers
    return int(config.model.lora_rank) * sum(layers.get(name, 0) for name in chosen)


@first
def refusal(config: DictConfig) -> Iterator[str]:
    if not config.model.lora_rank:
        for key in ("lora_alpha", "lora_target_modules"):
            if (value := config.model[key]) is not None:
                yield f"model.{key}={value} does nothing without model.lora_rank: set that too, as to 16"
        return
    rank, actor = f"model.lora_rank={config.model.lora_rank}", config.actor_rollout_ref
    for key in ("strategy", "fsdp_config.strategy"):
        if (strategy := OmegaConf.select(actor.actor, key)) != "fsdp2":
            yield f"{rank} needs actor_rollout_ref.actor.{key}=fsdp2, not {strategy}"
    if actor.rollout.layered_summon and "dummy" in actor.rollout.load_format and not merges(config):
        yield (
            f"{rank}: actor_rollout_ref.rollout.layered_summon=true needs "
            "actor_rollout_ref.rollout.load_format=safetensors"
        )
    if (backend := actor.rollout.checkpoint_engine.backend) == "delta_sharded":
        yield f"{rank}: actor_rollout_ref.rollout.checkpoint_engine.backend={backend} cannot send it; choose nccl"
    if has_experts(settings_of(config.model.path) or {}):
        yield (
            f"{rank}: model.path={config.model.path} is a mixture of experts, whose experts LoRA would leave out; "
            "train it whole"
        )
    yield from _unknown_layers(config)


def _unknown_layers(config: DictConfig) -> Iterator[str]:
    layers, chosen = linears(config.model.path), config.model.lora_target_modules
    if chosen is not None and not chosen:
        yield "model.lora_target_modules=[] leaves nothing to train: null means all linear layers"
    for name in chosen or ():
        if layers and name not in layers:
            yield (
                f"model.lora_target_modules has {name}, and the linear layers in the model's blocks are "
                f"{', '.join(layers)}{meant(name, layers)}"
            )
