"""verl's asynchronous trainers (docs/async.md): keys that follow from choosing one, and its checks.

Defaults that differ from verl's are interpolations in ``conf/config.yaml``: a synchronous run has
verl's values, and a key that the user sets keeps its value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf

from turngrid.config.errors import first

SYNC, COLOCATE, SEPARATE = "sync", "colocate_async", "separate_async"
MODES = (SYNC, COLOCATE, SEPARATE)
CPU_ENGINE = "turngrid_ray"  # verl_plugin/weight_transfer.py
DEFAULTED = (
    "trainer.v1.sampler.max_off_policy_threshold",
    "trainer.v1.sampler.max_off_policy_strategy",
    "trainer.v1.separate_async.parameter_sync_step",
)


def mode(config: DictConfig) -> str:
    return str(config.trainer.v1.trainer_mode)


def when_async(ours: Any, verls: Any, *, _root_: DictConfig) -> Any:
    return verls if mode(_root_) == SYNC else ours


def updates_of_a_step(verls: int, *, _root_: DictConfig) -> int:
    """Return the number of updates a step; ``separate_async`` needs one for each batch from its
    buffer.
    """
    if mode(_root_) != SEPARATE:
        return verls
    return int(_root_.data.train_batch_size) // int(_root_.actor_rollout_ref.actor.ppo_mini_batch_size)


def fill_in(config: DictConfig) -> None:
    """Resolve the interpolations, and set what an asynchronous trainer needs."""
    for key in DEFAULTED:
        OmegaConf.update(config, key, OmegaConf.select(config, key))
    if mode(config) == SYNC:
        return
    correction = config.algorithm.rollout_correction
    # cluster=cpu sets true: in sync mode alone, the server's log-probabilities are the trainer's
    correction.bypass_mode = correction.rollout_is is None and correction.rollout_rs is None
    if mode(config) == SEPARATE and config.trainer.device == "cpu":
        _separate_on_cpu(config)


def _separate_on_cpu(config: DictConfig) -> None:
    """Set the only possible layout: a separate server beside the trainer, weights through Ray."""
    rollout = config.actor_rollout_ref.rollout
    rollout.nnodes, rollout.n_gpus_per_node = rollout.nnodes or 1, 1
    if rollout.checkpoint_engine.backend == "naive":
        rollout.checkpoint_engine.backend = CPU_ENGINE
        rollout.checkpoint_engine.custom_backend_module = "turngrid.verl_plugin.weight_transfer"
    config.actor_rollout_ref.hybrid_engine = False
    config.ray_kwargs.ray_init.num_gpus = 1 + rollout.nnodes  # logical


@first
def refusal(config: DictConfig) -> Iterator[str]:
    name = mode(config)
    if name == SYNC:
        return
    sampler = config.trainer.v1.sampler
    if config.curriculum.name != "none":
        yield (
            f"curriculum={config.curriculum.name} counts steps, and trainer.v1.trainer_mode={name} plays for several "
            "at a time: choose curriculum=none or trainer.v1.trainer_mode=sync"
        )
    threshold, strategy = sampler.max_off_policy_threshold, sampler.max_off_policy_strategy
    warmup = config.trainer.v1[name].num_warmup_batches
    if strategy == "wait" and warmup >= threshold:
        yield (
            f"trainer.v1.{name}.num_warmup_batches={warmup} must be less than "
            f"trainer.v1.sampler.max_off_policy_threshold={threshold}, or the warm-up batches are too old to train on"
        )
    if name == SEPARATE:
        yield from _problems_of_separate(config)


def _problems_of_separate(config: DictConfig) -> Iterator[str]:
    """Yield problems that verl asserts only after its processes have started."""
    rollout, separate = config.actor_rollout_ref.rollout, config.trainer.v1.separate_async
    batch, mini = config.data.train_batch_size, config.actor_rollout_ref.actor.ppo_mini_batch_size
    if batch != separate.parameter_sync_step * mini:
        yield (
            f"trainer.v1.separate_async.parameter_sync_step={separate.parameter_sync_step} must be "
            f"data.train_batch_size / actor_rollout_ref.actor.ppo_mini_batch_size = {batch} / {mini}"
        )
    for key in ("nnodes", "n_gpus_per_node"):
        if rollout[key] < 1:
            yield (
                f"trainer.v1.trainer_mode=separate_async: actor_rollout_ref.rollout.{key}={rollout[key]} must be at "
                "least 1: rollouts have GPUs of their own"
            )
    if rollout.checkpoint_engine.backend == "naive":
        yield (
            "trainer.v1.trainer_mode=separate_async: actor_rollout_ref.rollout.checkpoint_engine.backend=naive cannot "
            "send weights to other GPUs: set it to nccl"
        )
    if config.trainer.device == "cuda" and rollout.name != "vllm":
        yield "trainer.v1.trainer_mode=separate_async needs rollout=vllm on GPUs"
