"""LoRA (docs/model.md): keys that follow from ``model.lora_rank``, and its checks.

verl's keys are set from ours. ``config/values/verl_limits.py`` refuses them on the command line,
since verl ignores some of them silently.
"""

from collections.abc import Iterator

from omegaconf import DictConfig, OmegaConf

from turngrid.config import asynchronous
from turngrid.envs.extensions import CONF
from turngrid.envs.utils.names import meant
from turngrid.records.models.shape import Shape, has_experts, linears, settings_of
from turngrid.tasks.run import Run

# Schulman et al., "LoRA Without Regret" (2025): alpha 32, all linear layers, ten times the learning
# rate of full training, whatever the rank, in SFT and RL alike
ALPHA = 32
LR_FACTOR = 10
LEARNING_RATES = ("actor_rollout_ref.actor.optim.lr", "model.sft.lr")
FULL_LR = 1e-6  # default for full training, if neither the model's option nor the scale's has one
FAR = 3  # factor above or below our learning rate that causes a warning
ALL = "all-linear"  # PEFT's word for all linear layers but the head


def lr(full: float, *, _root_: DictConfig) -> float:
    """Return a learning rate of ``conf/``, scaled if LoRA is on; a rate that is set stays."""
    if not OmegaConf.select(_root_, "model.lora_rank"):
        return full
    return float(f"{LR_FACTOR * full:.6g}")  # gives 1e-05, not 9.999999999999999e-06


def far_lr(run: Run) -> Iterator[str]:
    """Warn of a LoRA learning rate far from the default, often one meant for full training."""
    config = run.config
    share, rank = config.budget.sft_share, config.model.lora_rank
    files = [CONF / group / f"{config[group].name}.yaml" for group in ("model", "scale")]
    for key, runs in zip(LEARNING_RATES, (share < 1, share > 0), strict=True) if rank else ():
        # of full training: ${lr:NUMBER} in the model's file, else the scale's
        written = (OmegaConf.select(OmegaConf.load(file), key) for file in files if file.exists())
        full = next((float(value) for value in written if value is not None), FULL_LR)
        rate, ours = OmegaConf.select(config, key), LR_FACTOR * full
        if runs and not ours / FAR <= rate <= ours * FAR:
            reason = f"with model.lora_rank={rank} ours is {ours:g}, {LR_FACTOR} times that of full training"
            yield f"{key}={rate:g}: {reason}; use {key}={ours:g} (docs/model.md)"


def fill_in(config: DictConfig) -> None:
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

    If the layers are unknown, it is the model's number. An unknown layer counts 0; it is refused
    later.
    """
    if not config.model.lora_rank:
        return 0
    layers = linears(config.model.path)
    if not layers:
        return shape.parameters
    chosen = config.model.lora_target_modules or layers
    return int(config.model.lora_rank) * sum(layers.get(name, 0) for name in chosen)


def bad_adapters(run: Run) -> Iterator[str]:
    model, actor = run.config.model, run.config.actor_rollout_ref
    if not model.lora_rank:
        for key in ("lora_alpha", "lora_target_modules"):
            if (value := model[key]) is not None:
                yield f"model.{key}={value}: nothing reads it without LoRA; use model.lora_rank=16 too"
        return
    needed = {"actor.strategy": "fsdp2", "actor.fsdp_config.strategy": "fsdp2"}
    if actor.rollout.layered_summon and "dummy" in actor.rollout.load_format and not merges(run.config):
        needed["rollout.load_format"] = "safetensors"
    if actor.rollout.checkpoint_engine.backend == "delta_sharded":
        needed["rollout.checkpoint_engine.backend"] = "nccl"
    for key, value in needed.items():
        if (given := OmegaConf.select(actor, key)) != value:
            name = f"actor_rollout_ref.{key}"
            yield f"{name}={given}: it does not go with model.lora_rank={model.lora_rank}; use {name}={value}"
    if has_experts(settings_of(model.path) or {}):
        yield f"model.lora_rank={model.lora_rank}: it leaves out the experts of {model.path}; use model.lora_rank=null"
    layers, chosen = linears(model.path), model.lora_target_modules
    if chosen is not None and not chosen:
        yield "model.lora_target_modules=[]: it leaves nothing to train; use null, which means all linear layers"
    for name in chosen or ():
        if layers and name not in layers:
            known = f"the linear layers in the model's blocks are {', '.join(layers)}"
            yield f"model.lora_target_modules={list(chosen)}: {known}, and not {name}{meant(name, layers)}"
