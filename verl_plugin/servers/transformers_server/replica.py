"""verl's interface to our server: start it, and send it the trainer's weights."""

import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import ray
import torch
from verl.utils.device import get_device_name
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica
from verl.workers.rollout.utils import ensure_async_iterator

from turngrid.verl_plugin.servers.transformers_server import launch
from turngrid.verl_plugin.servers.transformers_server.launch import devices_of_replica, server_name


class TransformersReplica(RolloutReplica):
    """One server a replica, on the GPU of its first training process or on a CPU."""

    async def launch_servers(self) -> None:
        self._server_address = server_name(self.replica_rank)
        try:  # ``start_early`` may have started it
            self._server_handle = ray.get_actor(self._server_address)
        except ValueError:
            where = await self._node_and_gpu()
            self._server_handle = launch.start(self.replica_rank, self.model_config.path, self.config, *where)
        self.servers = [self._server_handle]

    async def _node_and_gpu(self) -> tuple[str, str]:
        on_gpu = get_device_name() == "cuda" and self.workers
        return await self.workers[0].__ray_call__.remote(_node_and_gpu) if on_gpu else ("", "")


def _node_and_gpu(_worker: Any) -> tuple[str, str]:
    """Runs in the training process."""
    context = ray.get_runtime_context()
    return context.get_node_id(), context.get_accelerator_ids()["GPU"][0]


class WeightSync(BaseRollout):
    """Sends full weights to its replica's server through Ray's object store.

    It runs in the training process, or beside a server that has devices of its own.
    """

    def __init__(
        self,
        config: Any,
        model_config: Any,
        device_mesh: Any,
        *args: Any,
        replica_rank: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, model_config, device_mesh)
        own, rank = divmod(int(os.environ.get("RANK", "0")), devices_of_replica(self.config))
        self._leads = rank == 0
        self._replica = own if replica_rank is None else replica_rank  # if it is given, RANK counts within it
        self._server: Any = None

    async def resume(self, tags: list[str]) -> None: ...

    async def release(self) -> None: ...

    async def update_weights(
        self,
        weights: Iterator[tuple[str, torch.Tensor]] | AsyncIterator[tuple[str, torch.Tensor]],
        wire_format: str = "named_tensors",
        global_steps: int | None = None,
        **_: Any,
    ) -> None:
        """Send the weights.

        Raises:
            ValueError: the wire format is not "named_tensors".
        """
        if wire_format != "named_tensors":
            raise ValueError(f"rollout=transformers takes named tensors, not {wire_format!r}")
        # Every rank drains the iterator: gathering a sharded tensor is a collective call.
        dtype = getattr(torch, self.config.dtype)
        named = ensure_async_iterator(weights)
        state = {name: tensor.detach().to("cpu", dtype, copy=True) async for name, tensor in named}
        if self._leads:
            self._server = self._server or ray.get_actor(server_name(self._replica))
            await self._server.update_weights.remote(ray.put(state), global_steps)
