"""Episodes that move in step, so that every batch of a run has the same members in the same order each time.

Floating-point sums depend on what shares a batch. A lockstep batch fires when each episode still playing has asked for
its turn; the batch is then sorted by the episode's place. Two lockstep batches side by side keep the model busy while
the games of the other one move.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Self

from rollouts.futures import settle
from rollouts.sampling import Sample, SampleRequest

RunBatch = Callable[[list[SampleRequest]], Awaitable[Sequence[Sample | Exception]]]


class LockstepBatch:
    """A barrier over ``size`` episodes in front of a batch sampler."""

    def __init__(self, size: int, run_batch: RunBatch) -> None:
        self._playing = size
        self._run_batch = run_batch
        self._waiting: dict[int, tuple[SampleRequest, asyncio.Future[Sample]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def slot(self, place: int) -> Slot:
        return Slot(self, place)

    async def ask(self, place: int, request: SampleRequest) -> Sample:
        future: asyncio.Future[Sample] = asyncio.get_running_loop().create_future()
        self._waiting[place] = (request, future)
        self._fire_when_complete()
        try:
            return await future
        finally:  # an episode that was cancelled while others were still to ask is in no batch
            if self._waiting.get(place, (None, None))[1] is future:
                del self._waiting[place]

    def leave(self) -> None:
        self._playing -= 1
        self._fire_when_complete()

    def _fire_when_complete(self) -> None:
        if not self._waiting or len(self._waiting) < self._playing:
            return
        batch = [self._waiting[place] for place in sorted(self._waiting)]
        self._waiting = {}
        task = asyncio.create_task(self._answer(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, batch: list[tuple[SampleRequest, asyncio.Future[Sample]]]) -> None:
        try:
            samples = await self._run_batch([request for request, _ in batch])
            if len(samples) != len(batch):
                raise RuntimeError(f"{len(samples)} answers to {len(batch)} requests")
            results: Sequence[Sample | Exception] = samples  # each episode gets its own error, if it has one
        except Exception as error:  # noqa: BLE001 - the episodes, not this task, must see what went wrong
            results = [error] * len(batch)
        for (_, future), result in zip(batch, results, strict=True):
            settle(future, result)


@dataclass
class Slot:
    """One episode's place in a lockstep batch; leave it (``async with``) so that the others are not kept waiting."""

    lockstep: LockstepBatch
    place: int

    async def sample(self, request: SampleRequest) -> Sample:
        return await self.lockstep.ask(self.place, request)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.lockstep.leave()
