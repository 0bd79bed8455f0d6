"""Processes that verl starts one after another, started side by side.

On a laptop they would stand in line: driver, queue controller, queue storage, trainer, server, load balancer, agent loop, games.
The rollout server, the agent loops with their games, and the transfer queue need nothing from the others to begin with.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import ray
from omegaconf import DictConfig, OmegaConf

from verl_plugin.cpu.start import one_queue
from verl_plugin.cpu.start.ray_start import ray_settings, start_ray
from verl_plugin.rollout.agent_shell import AgentShell
from verl_plugin.servers.transformers_server.spare_weights import keeper_name

_started: list[Any] = []  # Ray ends an actor when nobody holds it


def start(config: DictConfig) -> None:
    """Start a local Ray for a run on CPUs, and the processes that take longest; elsewhere verl starts its own Ray."""
    if config.trainer.device != "cpu":
        return
    os.environ["TRANSFER_QUEUE_ENABLE"] = "1"  # as verl does through Ray's runtime environment
    start_ray(ray_settings(config, sys.executable))
    rollout, env = config.actor_rollout_ref.rollout, OmegaConf.to_container(config.env, resolve=True)
    for index in range(rollout.agent.num_workers):
        shell: Any = ray.remote(AgentShell).options(name=keeper_name(index)).remote()
        shell.open_pool.remote(env, bool(config.prompt.admissible))
        _started.append(shell)
    if one_queue.fits(config.transfer_queue):
        _started.append(one_queue.start(config.transfer_queue))
    if rollout.name == "transformers":
        launch = importlib.import_module("verl_plugin.servers.transformers_server.launch")
        _started.append(launch.start(0, config.actor_rollout_ref.model.path, rollout))
