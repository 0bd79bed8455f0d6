"""Lockstep batches: each batch of a run has the same members in the same order every time.

Floating-point sums depend on what shares a batch. A lockstep batch is sampled when every running
episode has requested its turn; requests are sorted by the episode's index. Two lockstep batches
side by side keep the model busy while the games of the other one step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

from turngrid.rollouts.sampling import Sample, SampleRequest

T = TypeVar("T")
RunBatch = Callable[[list[SampleRequest]], Awaitable[Sequence[Sample | Exception]]]


class LockstepBatch:
    """A barrier for ``size`` episodes in front of a batch sampler."""

    def __init__(self, size: int, run_batch: RunBatch) -> None:
        self._running = size
        self._run_batch = run_batch
        self._waiting: dict[int, tuple[SampleRequest, asyncio.Future[Sample]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def slot(self, index: int) -> Slot:
        return Slot(self, index)

    async def ask(self, index: int, request: SampleRequest) -> Sample:
        future: asyncio.Future[Sample] = asyncio.get_running_loop().create_future()
        self._waiting[index] = (request, future)
        self._fire_when_complete()
        try:
            return await future
        finally:  # an episode that was cancelled before the batch was complete is in no batch
            if self._waiting.get(index, (None, None))[1] is future:
                del self._waiting[index]

    def leave(self) -> None:
        self._running -= 1
        self._fire_when_complete()

    def _fire_when_complete(self) -> None:
        if not self._waiting or len(self._waiting) < self._running:
            return
        batch = [self._waiting[index] for index in sorted(self._waiting)]
        self._waiting = {}
        task = asyncio.create_task(self._answer(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, batch: list[tuple[SampleRequest, asyncio.Future[Sample]]]) -> None:
        try:
            samples = await self._run_batch([request for request, _ in batch])
            if len(samples) != len(batch):
                raise RuntimeError(f"{len(samples)} answers to {len(batch)} requests")
            results: Sequence[Sample | Exception] = samples  # an episode gets its own error
        except Exception as error:  # noqa: BLE001 - the episodes, not this task, raise it
            results = [error] * len(batch)
        for (_, future), result in zip(batch, results, strict=True):
            settle(future, result)


@dataclass
class Slot:
    """An episode's index in a lockstep batch; ``async with`` leaves the batch at the end."""

    lockstep: LockstepBatch
    index: int

    async def sample(self, request: SampleRequest) -> Sample:
        return await self.lockstep.ask(self.index, request)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.lockstep.leave()


class Rounds:
    """Groups that roll out in rounds; each round of all groups is one lockstep batch.

    Slots are assigned once every running group has requested its number, in the order of
    ``groups``, so that the order of requests has no effect.
    """

    def __init__(self, groups: Sequence[str], run_batch: RunBatch) -> None:
        self._groups = list(groups)
        self._run_batch = run_batch
        self._requests: dict[str, tuple[int, asyncio.Future[list[Slot]]]] = {}

    async def slots(self, group: str, count: int) -> list[Slot]:
        """Return the slots of the group's next round; it must have left those of the last one."""
        future: asyncio.Future[list[Slot]] = asyncio.get_running_loop().create_future()
        self._requests[group] = (count, future)
        self._assign_when_complete()
        return await future

    def leave(self, group: str) -> None:
        """Remove a group that has no further round."""
        self._groups.remove(group)
        self._requests.pop(group, None)
        self._assign_when_complete()

    def _assign_when_complete(self) -> None:
        if not self._requests or len(self._requests) < len(self._groups):
            return
        requests, self._requests = [self._requests[group] for group in self._groups], {}
        batch = LockstepBatch(sum(count for count, _ in requests), self._run_batch)
        first = 0
        for count, future in requests:
            settle(future, [batch.slot(index) for index in range(first, first + count)])
            first += count


def settle(future: asyncio.Future[T], result: T | Exception) -> None:
    """Set the future's result or error, unless it was cancelled."""
    if future.done():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
