"""Where a replica's server runs, what it is called, and how it is started."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from verl_plugin.servers.transformers_server.server import TransformersServer


def server_name(rank: int, role: str = "policy") -> str:
    """The Ray actor name of one replica's server; each run has a Ray session of its own."""
    return f"turngrid_{role}_server_{rank}"


@dataclass(frozen=True)
class Place:
    """Where a server runs: a Ray node, and one of its GPUs, by the number that CUDA gives it. Neither: wherever Ray
    likes, on a CPU."""

    node: str = ""
    gpu: str = ""

    def options(self) -> dict[str, Any]:
        """Ray's. The GPU belongs to the trainer's process, which lends it while it waits, so Ray must not count it."""
        if not self.node:
            return {}
        visible = {"CUDA_VISIBLE_DEVICES": self.gpu, "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1"}
        where = NodeAffinitySchedulingStrategy(node_id=self.node, soft=False)
        return {"scheduling_strategy": where, "runtime_env": {"env_vars": visible}}


def start(
    rank: int, model_path: str, rollout: Any, role: str = "policy", concurrency: int = 1000, place: Place = Place()
) -> Any:
    """Start one replica's server and return its actor handle; ``rollout`` is verl's node of that name."""
    actor: Any = ray.remote(TransformersServer)
    settings = {"num_cpus": 0, "max_concurrency": concurrency}
    options = actor.options(name=server_name(rank, role), **settings, **place.options())
    device = "cuda" if place.gpu else "cpu"
    return options.remote(model_path, rollout.max_num_seqs, rollout.response_length, device, rollout.dtype)
