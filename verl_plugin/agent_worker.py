"""Provides verl with agent-loop workers
(``actor_rollout_ref.rollout.agent.agent_loop_manager_class``).
"""

from __future__ import annotations

from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from verl.trainer.ppo.v1 import AgentLoopManagerTQ

from turngrid.verl_plugin.rollout.agent_shell import AgentShell, shell_name


class AgentLoopManager(AgentLoopManagerTQ):
    """Uses worker processes that were started early, and starts new ones if there are none."""

    async def _init_agent_loop_workers(self) -> None:
        """A worker process may be started early, and keeps the step's weights."""
        nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) > 0]
        self.agent_loop_workers = []
        for index in range(self.rollout_config.agent.num_workers):
            shell = _shell(index, nodes[index % len(nodes)])
            shell.become.remote(self.config, self.llm_client, self.teacher_client, self.reward_loop_worker_handles)
            self.agent_loop_workers.append(shell)


def _shell(index: int, node: str) -> Any:
    try:
        return ray.get_actor(shell_name(index))
    except ValueError:  # nothing was started early
        where = NodeAffinitySchedulingStrategy(node_id=node, soft=True)
        return ray.remote(AgentShell).options(name=shell_name(index), scheduling_strategy=where).remote()
