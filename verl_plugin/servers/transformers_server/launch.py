"""Name, place and start the rollout servers, and count them."""

from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from turngrid.verl_plugin.servers.transformers_server.server import TransformersServer


def server_name(rank: int) -> str:
    """Return the Ray actor name of a replica's server; each run has its own Ray session."""
    return f"turngrid_server_{rank}"


def start(rank: int, model_path: str, rollout: Any, node: str = "", gpu: str = "") -> Any:
    """Start a replica's server and return its actor handle.

    Args:
        rollout: verl's config node.
        node: of Ray; "": Ray chooses it.
        gpu: CUDA index on the node; "": the server runs on a CPU. Ray is asked for no GPU, since
            this one is allocated to the trainer's process.
    """
    settings: dict[str, Any] = {"num_cpus": 0, "max_concurrency": max(1000, 2 * rollout.max_num_seqs)}
    if node:
        visible = {"CUDA_VISIBLE_DEVICES": gpu, "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1"}
        settings["scheduling_strategy"] = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        settings["runtime_env"] = {"env_vars": visible}
    actor: Any = ray.remote(TransformersServer)
    options, device = actor.options(name=server_name(rank), **settings), "cuda" if gpu else "cpu"
    return options.remote(model_path, rollout.max_num_seqs, device, rollout.dtype)


def devices_of_replica(rollout: Any) -> int:
    """Return the number of devices of one server.

    Args:
        rollout: verl's node or dataclass of that name.
    """
    return rollout.tensor_model_parallel_size * rollout.data_parallel_size * rollout.pipeline_model_parallel_size


def replicas(trainer: Any, rollout: Any) -> int:
    """Return the number of servers over all nodes, at least one."""
    return max(1, trainer.n_gpus_per_node * trainer.nnodes // devices_of_replica(rollout))
