"""verl's asynchronous trainers (docs/async.md): keys that follow from choosing one, and its checks.

Defaults that differ from verl's are interpolations in ``conf/config.yaml``: a synchronous run has
verl's values, and a key that the user sets keeps its value, but for ``hybrid_engine``.
"""

from collections.abc import Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf

from turngrid.tasks.run import Run

SYNC, COLOCATE, SEPARATE = "sync", "colocate_async", "separate_async"
MODES = (SYNC, COLOCATE, SEPARATE)
CPU_ENGINE = "turngrid_ray"  # verl_plugin/weight_transfer.py


def mode(config: DictConfig) -> str:
    return str(config.trainer.v1.trainer_mode)


def when_async(ours: Any, verls: Any, *, _root_: DictConfig) -> Any:
    return verls if mode(_root_) == SYNC else ours


def uncorrected(*, _root_: DictConfig) -> bool:
    """Return whether the loss has neither importance weights nor a rejection."""
    correction = _root_.algorithm.rollout_correction
    return correction.rollout_is is None and correction.rollout_rs is None


def updates_of_a_step(verls: int, *, _root_: DictConfig) -> int:
    """Return the updates of a step; ``separate_async`` needs one for each batch of its buffer."""
    if mode(_root_) != SEPARATE:
        return verls
    return int(_root_.data.train_batch_size) // int(_root_.actor_rollout_ref.actor.ppo_mini_batch_size)


def fill_in(config: DictConfig) -> None:
    """Set what an asynchronous trainer needs."""
    if mode(config) == SEPARATE and config.trainer.device == "cpu":  # a server beside the trainer, weights through Ray
        rollout = config.actor_rollout_ref.rollout
        rollout.nnodes = rollout.nnodes or 1
        if OmegaConf.is_interpolation(rollout, "n_gpus_per_node"):
            rollout.n_gpus_per_node = 1
        if rollout.checkpoint_engine.backend == "naive":
            rollout.checkpoint_engine.backend = CPU_ENGINE
            rollout.checkpoint_engine.custom_backend_module = "turngrid.verl_plugin.weight_transfer"
        config.actor_rollout_ref.hybrid_engine = False
        if OmegaConf.is_interpolation(config.ray_kwargs.ray_init, "num_gpus"):
            config.ray_kwargs.ray_init.num_gpus = gpus_needed(config)


def gpus_needed(config: DictConfig) -> int:
    """Return the GPUs of trainer and separate servers; on CPUs one for each process."""
    rollout = config.actor_rollout_ref.rollout
    separate = rollout.nnodes * (rollout.n_gpus_per_node or 1) if mode(config) == SEPARATE else 0
    return int(config.trainer.n_gpus_per_node + separate)


def bad_async(run: Run) -> Iterator[str]:
    """Refuse settings that verl refuses only after its processes have started, or never."""
    config = run.config
    name, sampler = mode(config), config.trainer.v1.sampler
    if name == SYNC:
        return
    if config.curriculum.name != "none":
        reason = f"it counts steps, and trainer.v1.trainer_mode={name} samples for several at a time"
        yield f"curriculum={config.curriculum.name}: {reason}; use curriculum=none or trainer.v1.trainer_mode=sync"
    node, follows = config.algorithm.rollout_correction, uncorrected(_root_=config)
    if not OmegaConf.is_interpolation(node, "bypass_mode") and node.bypass_mode != follows:
        given = f"algorithm.rollout_correction.bypass_mode={str(node.bypass_mode).lower()}"
        use = "correction=sampler_clip" if node.bypass_mode else "correction=token_tis"
        yield f"{given}: trainer.v1.trainer_mode={name} sets it by weights and rejection; use {use}"
    threshold, warmup = sampler.max_off_policy_threshold, config.trainer.v1[name].num_warmup_batches
    if sampler.max_off_policy_strategy == "wait" and warmup >= threshold:
        use = f"use fewer, or a trainer.v1.sampler.max_off_policy_threshold above {warmup}"
        yield f"trainer.v1.{name}.num_warmup_batches={warmup}: the warm-up batches would be too old to train on; {use}"
    if name == SEPARATE:
        yield from _problems_of_separate(config)


def _problems_of_separate(config: DictConfig) -> Iterator[str]:
    rollout, separate = config.actor_rollout_ref.rollout, config.trainer.v1.separate_async
    batch, mini = config.data.train_batch_size, config.actor_rollout_ref.actor.ppo_mini_batch_size
    if batch != separate.parameter_sync_step * mini:
        key = "trainer.v1.separate_async.parameter_sync_step"
        sizes = "data.train_batch_size / actor_rollout_ref.actor.ppo_mini_batch_size"
        yield f"{key}={separate.parameter_sync_step}: it must be {sizes} = {batch} / {mini}; use {key}={batch // mini}"
    for key in ("nnodes", "n_gpus_per_node"):
        if not rollout[key]:
            name = f"actor_rollout_ref.rollout.{key}"
            yield f"{name}={rollout[key]}: rollouts have GPUs of their own in separate_async; use {name}=1 or more"
    if config.trainer.device == "cpu" and (there := rollout.n_gpus_per_node or 1) > 1:
        use = f"actor_rollout_ref.rollout.nnodes={there} for as many servers"
        yield f"actor_rollout_ref.rollout.n_gpus_per_node={there}: on CPUs a node has one server; use {use}"
    if rollout.checkpoint_engine.backend == "naive":
        key = "actor_rollout_ref.rollout.checkpoint_engine.backend"
        yield f"{key}=naive: it cannot send weights to other GPUs; use {key}=nccl"
    if config.trainer.device == "cuda" and rollout.name != "vllm":
        yield "trainer.v1.trainer_mode=separate_async: on GPUs it needs vLLM's server; use rollout=vllm"
