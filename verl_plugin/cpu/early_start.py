"""Start Ray and the rollout server on a CPU while the driver imports; verl would do it later."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from omegaconf import DictConfig

from turngrid.verl_plugin.cpu.ray_start import ray_settings, start_ray

_started: list[Any] = []  # Ray ends an actor without a handle


def start(config: DictConfig) -> None:
    """Start a local Ray and the rollout server. On GPUs, do nothing: verl starts its own Ray."""
    if config.trainer.device != "cpu":
        return
    os.environ["TRANSFER_QUEUE_ENABLE"] = "1"  # verl sets it through Ray's runtime environment
    start_ray(ray_settings(config, sys.executable))
    rollout = config.actor_rollout_ref.rollout
    if rollout.name == "transformers":
        launch = importlib.import_module("turngrid.verl_plugin.servers.transformers_server.launch")
        _started.append(launch.start(0, config.actor_rollout_ref.model.path, rollout))
