"""Replacements in verl's modules: ``{module: {verl's name: "module:name" of ours}}``.

Our docstring gives the reason, and after "Until" the condition for removal; ``docs/verl.md`` shows
both. verl's extension points (registries, abstract methods, class names in its config) are not
listed. Methods of verl that our classes override are discovered from the classes
(``benchmarks/verl_overrides.py``).

A change is made right after the module is imported, and nothing heavy is imported here: made at
once, all would make ``import verl`` two seconds slower.
"""

import hashlib
import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce, wraps
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

from wrapt import register_post_import_hook

from turngrid.envs.utils import stacks

Table = dict[str, dict[str, str]]

_TRAINER, _ENGINE = "verl.trainer.ppo.v1.trainer_base", "verl.workers.engine.fsdp.transformer_impl"

# Our function gets verl's function, then the call's arguments. If verl's object is no function, it
# gets that object and returns the replacement.
WRAPPED: Table = {
    _TRAINER: {
        "compute_advantage_for_multi_trajectories": "turngrid.verl_plugin.training.estimators:by_episode",
        "compute_data_metrics": "turngrid.verl_plugin.training.tracking:with_moments",
    },
    "verl.trainer.ppo.v1.trainer_separate_async": {"logger.info": "turngrid.verl_plugin.changes:without_flush"},
    "verl.workers.rollout.base": {"_ROLLOUT_REGISTRY": "turngrid.verl_plugin.changes:with_our_server"},
    "verl.workers.rollout.vllm_rollout.bucketed_weight_transfer": {
        "BucketedWeightSender.__init__": "turngrid.verl_plugin.changes:socket_of_run",
        "BucketedWeightReceiver.__init__": "turngrid.verl_plugin.changes:socket_of_run",
    },
    "verl.workers.utils.losses": {
        "ppo_loss": "turngrid.verl_plugin.training.losses:with_methods",
        "value_loss": "turngrid.verl_plugin.value_heads:sum_of_heads",
    },
    "verl.utils.model": {"load_valuehead_model": "turngrid.verl_plugin.value_heads:with_heads"},
    _ENGINE: {
        "FSDPEngineWithValueHead.prepare_model_outputs": "turngrid.verl_plugin.value_heads:each_head",
        "FSDPEngine.forward_backward_batch": "turngrid.verl_plugin.training.losses:with_sums",
        "FSDPEngine.save_checkpoint": "turngrid.verl_plugin.averaged:saved",
        "FSDPEngine.load_checkpoint": "turngrid.verl_plugin.averaged:loaded",
        "FSDPEngine._build_module": "turngrid.verl_plugin.whole_models:whole",
        "FSDPEngine._build_lora_module": "turngrid.verl_plugin.lora:seeded",
    },
    "verl.utils.checkpoint.fsdp_checkpoint_manager": {
        "get_fsdp_full_state_dict": "turngrid.verl_plugin.lora:merged_state",
        "FSDPCheckpointManager.save_checkpoint": "turngrid.verl_plugin.lora:with_adapter",
        "FSDPCheckpointManager.load_checkpoint": "turngrid.verl_plugin.changes:rate_of_config",
    },
    "verl.workers.engine_workers": {
        "ActorRolloutRefWorker.init_model": "turngrid.verl_plugin.whole_models:with_teacher"
    },
    "verl.utils.fsdp_utils": {"fsdp2_sharded_save_to_cpu": "turngrid.verl_plugin.changes:save_copies"},
}

# Our object replaces verl's
REPLACED: Table = {
    "verl.trainer.ppo.core_algos": {"verl_F.masked_whiten": "turngrid.algorithms.pools:whiten"},
    _TRAINER: {
        "apply_kl_penalty": "turngrid.verl_plugin.training.estimators:apply_kl_penalty",
        "Tracking": "turngrid.verl_plugin.training.tracking:RunTracking",
    },
    _ENGINE: {"FSDPEngine._merged_lora_per_tensor_param": "turngrid.verl_plugin.lora:streamed"},
}

# Our modules that register classes with a module of verl once it is imported
REGISTERING = {
    "verl.plugin.platform.platform_manager": "turngrid.verl_plugin.cpu.platform",
    _ENGINE: "turngrid.verl_plugin.cpu.engines",
}


# ---- how they are made


def run(module: ModuleType) -> None:
    """Apply the changes of one of verl's modules, then import our module that registers with it."""
    for name, by in WRAPPED.get(module.__name__, {}).items():
        owner, own = _find(module, name)
        usual = getattr(owner, own)
        ours = resolve_name(by)
        setattr(owner, own, around(usual, ours) if callable(usual) else ours(usual))
    for name, by in REPLACED.get(module.__name__, {}).items():
        owner, own = _find(module, name)
        setattr(owner, own, resolve_name(by))
    if registering := REGISTERING.get(module.__name__):
        importlib.import_module(registering)


def around(usual: Callable[..., Any], by: Callable[..., Any]) -> Callable[..., Any]:
    """Return verl's function with ours around it, which gets verl's as its first argument."""

    @wraps(usual)
    def called(*args: Any, **kwargs: Any) -> Any:
        return by(usual, *args, **kwargs)

    return called


def _find(module: ModuleType, name: str) -> tuple[Any, str]:
    *inside, own = name.split(".")
    return reduce(getattr, inside, module), own


@contextmanager
def replaced(module: ModuleType | type, name: str, value: Any) -> Iterator[None]:
    """Set ``module.name`` to ``value`` inside the block."""
    original = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, original)


def install() -> None:
    """Change verl's modules as soon as they are imported, and those that are already."""
    for name in {*WRAPPED, *REPLACED, *REGISTERING}:
        register_post_import_hook(run, name)


# ---- small replacements


WEIGHT_SYNC = "turngrid.verl_plugin.servers.transformers_server.replica.WeightSync"


def with_our_server(registry: dict[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    """Add the trainer's side of our rollout server to verl's registry of class names.

    Until verl offers a decorator, as it does for engines.
    """
    return {**registry, ("transformers", "async"): WEIGHT_SYNC}


def socket_of_run(usual: Callable[..., None], transfer: Any, zmq_handle: str, *args: Any, **kwargs: Any) -> None:
    """Name the socket of weights for vLLM after the run too: verl's name has Ray's job id, which is
    the same for the first job of every Ray.

    Until verl's name differs between runs on one machine.
    """
    run = hashlib.sha256(os.environ.get(stacks.FOLDER, "").encode()).hexdigest()[:12]
    usual(transfer, f"{zmq_handle}-{run}", *args, **kwargs)


def rate_of_config(usual: Callable[..., None], manager: Any, *args: Any, **kwargs: Any) -> None:
    """Scale the restored rates if the config has another one than the checkpoint.

    Until verl leaves the learning rate of a resumed run to its config.
    """
    scheduler = manager.lr_scheduler
    wanted = list(scheduler.base_lrs) if scheduler else []
    usual(manager, *args, **kwargs)
    restored = list(scheduler.base_lrs) if scheduler else []
    if wanted == restored:
        return
    groups, last = manager.optimizer.param_groups, scheduler.get_last_lr()
    for group, rate, base, now in zip(groups, wanted, restored, last, strict=True):
        group["initial_lr"] = rate
        group["lr"] = now * (rate / base) if base else rate
    scheduler.base_lrs = wanted


def without_flush(info: Callable[..., None], *args: Any, flush: bool = False, **kwargs: Any) -> None:
    """Ignore the argument ``flush``, which verl's asynchronous trainer gives its logger (a bug).

    Until verl fixes it.
    """
    info(*args, **kwargs)


def save_copies(save: Callable[[object], tuple[dict[str, tuple], object]], model: object) -> Any:
    """Copy weights that are on the CPU already, which verl saves uncopied (a bug).

    Until verl fixes it.
    """
    state, spec = save(model)
    return {name: (tensor.clone(), own) for name, (tensor, own) in state.items()}, spec
