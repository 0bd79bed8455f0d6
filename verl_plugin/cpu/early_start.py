"""Start Ray's slow processes in parallel on a CPU; verl would start them one after another.

The rollout server and the agent loops, with their environment workers, can start before verl has
given them its arguments.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import ray
from omegaconf import DictConfig, OmegaConf

from turngrid.verl_plugin.cpu.ray_start import ray_settings, start_ray
from turngrid.verl_plugin.rollout.agent_shell import AgentShell, shell_name

_started: list[Any] = []  # Ray ends an actor without a handle


def start(config: DictConfig) -> None:
    """Start a local Ray and its slowest processes. On GPUs, do nothing: verl starts its own Ray."""
    if config.trainer.device != "cpu":
        return
    os.environ["TRANSFER_QUEUE_ENABLE"] = "1"  # verl sets it through Ray's runtime environment
    start_ray(ray_settings(config, sys.executable))
    rollout, env = config.actor_rollout_ref.rollout, OmegaConf.to_container(config.env, resolve=True)
    for index in range(rollout.agent.num_workers):
        shell: Any = ray.remote(AgentShell).options(name=shell_name(index)).remote()
        shell.open_pool.remote(env, bool(config.prompt.admissible))
        _started.append(shell)
    if rollout.name == "transformers":
        launch = importlib.import_module("turngrid.verl_plugin.servers.transformers_server.launch")
        _started.append(launch.start(0, config.actor_rollout_ref.model.path, rollout))
