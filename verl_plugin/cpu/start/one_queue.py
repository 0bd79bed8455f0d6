"""The transfer queue in one process: its controller and its only storage unit.

The library gives each a process of its own, one started when the other stands: 2 core-seconds and 280 MiB more. Both are
asked through sockets by threads of theirs, wherever they live; of the controller's actor a client wants its config alone.
"""

from __future__ import annotations

import importlib
import sys
from importlib import resources
from types import ModuleType
from typing import Any

import ray
from omegaconf import DictConfig, OmegaConf

CONTROLLER, NAMESPACE = "TransferQueueController", "transfer_queue"  # where every process looks for the queue


def fits(queue: DictConfig) -> bool:
    """One storage unit, in memory, with nothing beside it: all else is left to the library."""
    memory = queue.backend.get("SimpleStorage", {})
    one = queue.backend.storage_backend == "SimpleStorage" and memory.get("num_data_storage_units") == 1
    return one and not ("ssd_offload" in memory or queue.metrics.enabled or "controller" in queue)


def start(queue: DictConfig) -> Any:
    """Start its process; returns the actor's handle at once. Whoever joins the queue waits until it stands."""
    actor: Any = ray.remote(OneQueue)
    return actor.options(name=CONTROLLER, namespace=NAMESPACE, num_cpus=1).remote(queue)


class OneQueue:
    """Looks like the controller's actor to ``transfer_queue.init``, which joins a queue that is there."""

    def __init__(self, queue: DictConfig) -> None:
        _import_tensordict()
        defaults = OmegaConf.load(str(resources.files("transfer_queue") / "config.yaml"))
        self._config: Any = OmegaConf.merge(OmegaConf.create({}, flags={"allow_objects": True}), defaults, queue)
        about, storage = self._config.controller, self._config.backend.SimpleStorage
        sampler = getattr(importlib.import_module("transfer_queue.sampler"), about.sampler)
        controller = _class("transfer_queue.controller", "TransferQueueController")
        unit = _class("transfer_queue.storage.simple_storage", "SimpleStorageUnit")
        self._controller = controller(sampler=sampler, polling_mode=about.polling_mode)
        self._unit = unit(config=dict(storage))
        about.zmq_info = self._controller.get_zmq_server_info()
        storage.zmq_info = {"TransferQueueStorageUnit#0": self._unit.get_zmq_server_info()}

    def get_config(self) -> Any:
        return self._config


def _class(module: str, name: str) -> Any:
    """The plain class behind an actor's."""
    return getattr(importlib.import_module(module), name).__ray_metadata__.modified_class


def _import_tensordict() -> None:
    """Without torch's compiler, 70 MiB and a core-second for two names: one marks a function for the compiler, one does nothing
    unless compiled. Whoever asks for the compiler later gets the real one. A copy of the template has imported both already;
    this is for vLLM's runs, which have none."""
    stand_in = ModuleType("torch._dynamo")
    stand_in.assume_constant_result = lambda function: function  # type: ignore[attr-defined]
    stand_in.graph_break = lambda msg="": None  # type: ignore[attr-defined]
    importlib.import_module("torch")
    if sys.modules.setdefault(stand_in.__name__, stand_in) is stand_in:
        importlib.import_module("tensordict")
        del sys.modules[stand_in.__name__]
