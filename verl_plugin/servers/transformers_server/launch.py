"""Start a replica's server: its name, the node and GPU where it runs; the number of replicas."""

from dataclasses import dataclass
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from turngrid.verl_plugin.servers.transformers_server.server import TransformersServer


def server_name(rank: int, role: str = "policy") -> str:
    """Return the Ray actor name of a replica's server; each run has its own Ray session."""
    return f"turngrid_{role}_server_{rank}"


@dataclass(frozen=True)
class Place:
    """A Ray node and the CUDA index of one of its GPUs.

    If both are empty, Ray chooses the node, and the server runs on a CPU.
    """

    node: str = ""
    gpu: str = ""

    def options(self) -> dict[str, Any]:
        """Return the Ray options of the actor.

        They request no GPU from Ray, since the GPU is allocated to the trainer's process.
        """
        if not self.node:
            return {}
        visible = {"CUDA_VISIBLE_DEVICES": self.gpu, "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1"}
        where = NodeAffinitySchedulingStrategy(node_id=self.node, soft=False)
        return {"scheduling_strategy": where, "runtime_env": {"env_vars": visible}}


def start(
    rank: int, model_path: str, rollout: Any, role: str = "policy", concurrency: int = 1000, place: Place = Place()
) -> Any:
    """Start a replica's server and return its actor handle; ``rollout`` is verl's config node."""
    actor: Any = ray.remote(TransformersServer)
    settings = {"num_cpus": 0, "max_concurrency": concurrency}
    options = actor.options(name=server_name(rank, role), **settings, **place.options())
    device = "cuda" if place.gpu else "cpu"
    return options.remote(model_path, rollout.max_num_seqs, rollout.response_length, device, rollout.dtype)


def devices_of_replica(rollout: Any) -> int:
    """Return the devices of one server; ``rollout`` is verl's node or dataclass of that name."""
    return rollout.tensor_model_parallel_size * rollout.data_parallel_size * rollout.pipeline_model_parallel_size


def replicas(trainer: Any, rollout: Any) -> int:
    """Return the number of servers over all nodes, at least one."""
    return max(1, trainer.n_gpus_per_node * trainer.nnodes // devices_of_replica(rollout))
