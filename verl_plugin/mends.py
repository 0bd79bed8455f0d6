"""What ``changes.AFTER_IMPORT`` does to verl's modules, one function an entry, called with the module, or for ``Around`` with verl's own."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

POLL_SECONDS = 0.05


def estimators(module: ModuleType) -> None:
    importlib.import_module("verl_plugin.training.estimators")


def agent_loop(module: ModuleType) -> None:
    importlib.import_module("verl_plugin.rollout.agent_loop")


def rollout_adapter(module: ModuleType) -> None:
    module._ROLLOUT_REGISTRY["transformers", "async"] = "verl_plugin.servers.transformers_server.replica.WeightSync"


def rollout_replica(module: ModuleType) -> None:
    def load() -> type:
        return importlib.import_module("verl_plugin.servers.transformers_server.replica").TransformersReplica

    module.RolloutReplicaRegistry.register("transformers", load)


def cpu_engines(module: ModuleType) -> None:
    importlib.import_module("verl_plugin.cpu.engines")


def platform(module: ModuleType) -> None:
    """verl finds CUDA and NPU by itself; the CPU only where it is asked for, since it never outranks them."""
    importlib.import_module("verl_plugin.cpu.platform")


def often(usual: Callable[..., None]) -> Callable[..., None]:
    """verl's replay buffer looks for finished episodes every 2 s, a floor under every step of a small model."""

    def init(self: object, *args: object, **kwargs: object) -> None:
        kwargs.setdefault("poll_interval", POLL_SECONDS)
        usual(self, *args, **kwargs)

    return init


def save_copies(save: Callable[[object], tuple[dict[str, tuple], object]]) -> Callable[[object], Any]:
    """verl keeps a step's weights "on the CPU" while it updates them; where they are there already, its copy is the weights
    themselves."""

    def save_copies(model: object) -> tuple[dict[str, tuple], object]:
        state, spec = save(model)
        return {name: (tensor.clone(), own) for name, (tensor, own) in state.items()}, spec

    return save_copies
