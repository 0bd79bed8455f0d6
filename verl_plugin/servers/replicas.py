"""The number of rollout servers of a run, and of devices of each, counted as verl does."""

from typing import Any


def devices_of_replica(rollout: Any) -> int:
    """Return the devices of one server; ``rollout`` is verl's node or dataclass of that name."""
    return rollout.tensor_model_parallel_size * rollout.data_parallel_size * rollout.pipeline_model_parallel_size


def replicas(trainer: Any, rollout: Any) -> int:
    """Return the number of servers over all nodes, at least one."""
    return max(1, trainer.n_gpus_per_node * trainer.nnodes // devices_of_replica(rollout))
