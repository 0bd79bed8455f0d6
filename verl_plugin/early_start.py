"""Processes that verl starts one after another, started side by side, before verl is imported here.

Each of verl's actors spends five to eight core-seconds on imports. On a laptop they would stand in line: driver, trainer,
server, load balancer, agent loop. The rollout server and the agent loops need nothing from the others to begin with.
Only Ray is imported here.
"""

from __future__ import annotations

import importlib
import os
import shlex
import sys
from typing import Any

import ray
from omegaconf import DictConfig, OmegaConf


class AgentShell:
    """An agent-loop worker's process: imports what it needs at once, becomes the worker when verl knows its arguments."""

    def __init__(self) -> None:
        self._kind = importlib.import_module("verl_plugin.agent_worker").AgentLoopWorker
        self._worker: Any = None

    async def become(self, *arguments: Any) -> None:
        self._worker = self._kind(*arguments)

    async def generate_sequences(self, batch: Any) -> None:
        await self._worker.generate_sequences(batch)


_started: list[Any] = []  # Ray ends an actor when nobody holds it


def shell_name(index: int) -> str:
    return f"turngrid_agent_loop_{index}"


def start(config: DictConfig) -> None:
    """Start a local Ray for a run on CPUs, and the processes that take longest; elsewhere verl starts its own Ray."""
    if config.trainer.device != "cpu":
        return
    os.environ["TRANSFER_QUEUE_ENABLE"] = "1"  # as verl does through Ray's runtime environment
    settings = OmegaConf.to_container(config.ray_kwargs.ray_init, resolve=True)
    assert isinstance(settings, dict)
    executable = shlex.quote(sys.executable)
    if executable != sys.executable:  # Ray writes it into a shell's command line as it is, spaces and all
        settings["runtime_env"] = {**(settings.get("runtime_env") or {}), "py_executable": executable}
    ray.init(**{str(key): value for key, value in settings.items() if value is not None})
    rollout = config.actor_rollout_ref.rollout
    for index in range(rollout.agent.num_workers):
        _started.append(ray.remote(AgentShell).options(name=shell_name(index)).remote())
    if rollout.name == "transformers":
        server = importlib.import_module("verl_plugin.transformers_server.server")
        _started.append(server.start(0, config.actor_rollout_ref.model.path, rollout))
