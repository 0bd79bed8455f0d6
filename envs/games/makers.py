"""Make many games at once in worker processes, behind a blocking call."""

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict
from typing import Any, Self, TypeVar

from turngrid.envs.environment import Environment, Params
from turngrid.envs.games.cache import GameCache
from turngrid.envs.hosting.pool import Slot
from turngrid.envs.hosting.process import WorkerLost, WorkerProcess
from turngrid.envs.types import EnvError
from turngrid.envs.utils.bar import ticking_bar

T = TypeVar("T")


class Makers:
    """Processes that make games of one environment, started on first use and kept running.

    Their event loop has a separate thread, so that a caller may run inside another loop.
    """

    def __init__(self, environment: Environment, cache: GameCache, workers: int, progress: bool) -> None:
        self._environment, self._cache = environment, cache
        spec = f"{type(environment).__module__}:{type(environment).__qualname__}"
        self._slots = [Slot(spec, asdict(environment.settings)) for _ in range(workers)]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="makers", daemon=True)
        self._progress = progress

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def make(self, params: Params, seeds: Sequence[int], about: str) -> None:
        """Make and publish the games of these seeds, or the reasons why there are none.

        Raises:
            EnvError: a process died or hung twice on one seed.
        """
        with ticking_bar(total=len(seeds), desc=about, unit="seed", file=sys.stderr, disable=not self._progress) as bar:
            self._run(self._make_all(params, list(reversed(seeds)), bar.update))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _make_all(self, params: Params, left: list[int], done: Callable[[], object]) -> None:
        async def by(slot: Slot) -> None:
            while left:
                await self._make_one(slot, params, left.pop())
                done()

        await asyncio.gather(*(by(slot) for slot in self._slots[: len(left)]))

    async def _make_one(self, slot: Slot, params: Params, seed: int) -> None:
        for last_try in (False, True):
            worker = await slot.worker()
            try:
                await self._ask(worker, params, seed)
                return
            except WorkerLost as lost:
                if last_try:
                    raise EnvError(f"making {self._environment.name} {dict(params)} seed {seed}: {lost}") from lost

    async def _ask(self, worker: WorkerProcess, params: Params, seed: int) -> None:
        with self._cache.building() as folder:
            request = {"op": "make", "params": dict(params), "seed": seed, "folder": str(folder)}
            outcome = await worker.request(request, self._environment.longest_making_s)
            self._cache.publish(folder, params, seed, outcome)

    async def _close(self) -> None:
        """Cancel tasks that wait for games (after an error), and end the processes."""
        waiting = asyncio.all_tasks() - {asyncio.current_task()}
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await asyncio.gather(*(slot.close() for slot in self._slots))
