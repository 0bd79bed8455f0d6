"""Transfers weights from a trainer to servers on separate devices, through Ray's object store.

It is for machines without the GPUs that verl's own engines (NCCL, NIXL) need. verl starts both
sides of a transfer at once. They meet at an actor that holds the latest weights.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import ray
import torch
from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry

ENGINE = "turngrid_ray"
MEETING_POINT = "turngrid_weights"


class MeetingPoint:
    def __init__(self) -> None:
        self._step: int | None = None
        self._weights: list[Any] = []  # wrapped in a list, so that Ray passes the reference instead of the tensors
        self._changed = asyncio.Condition()

    async def leave(self, step: int | None, weights: list[Any]) -> None:
        async with self._changed:
            self._step, self._weights = step, weights
            self._changed.notify_all()

    async def take(self, step: int | None) -> list[Any]:
        """Wait for the weights of ``step``."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._weights and self._step == step)
            return self._weights


@CheckpointEngineRegistry.register(ENGINE)
class RayWeightTransfer(CheckpointEngine):
    """Rank 0 of the trainer sends unsharded tensors; every replica's process takes them."""

    def __init__(self, bucket_size: int, is_master: bool = False, dtype: str = "float32") -> None:
        self._sends, self._dtype = is_master, getattr(torch, dtype)
        self._meeting_point: Any = None

    def prepare(self) -> dict[str, Any]:
        actor: Any = ray.remote(MeetingPoint)
        options = actor.options(name=MEETING_POINT, get_if_exists=True, num_cpus=0)
        self._meeting_point = self._meeting_point or options.remote()
        return {}

    @classmethod
    def build_topology(
        cls, actor_wg_world_size: int, rollout_world_size: int, metadata: list[dict[str, Any]]
    ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        """The processes need no groups."""
        return {}, {}

    def init_process_group(self, **_: Any) -> None: ...

    def finalize(self) -> None: ...

    async def send_weights(
        self, weights: Iterator[tuple[str, torch.Tensor]], global_steps: int | None = None
    ) -> dict[str, Any]:
        # Every rank drains the iterator: gathering a sharded tensor is a collective call.
        references = []
        for name, tensor in weights:
            if self._sends:  # an object each, so that a store smaller than the model moves some to disk
                references.append(ray.put((name, tensor.detach().to("cpu", self._dtype))))
        if self._sends:
            await self._meeting_point.leave.remote(global_steps, references)
        return {}

    async def receive_weights(  # type: ignore[override]
        self, global_steps: int | None = None
    ) -> AsyncIterator[tuple[str, torch.Tensor]]:
        for reference in await self._meeting_point.take.remote(global_steps):
            yield await reference
