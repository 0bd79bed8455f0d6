"""The process of an agent-loop worker, which may start before verl has its arguments."""

from __future__ import annotations

import asyncio
import gc
import importlib
from typing import Any

COLLECTED_AFTER = 50_000  # new objects before a collection; Python's 700 took a fifth of the time with 192 episodes


def shell_name(index: int) -> str:
    """Return the Ray actor name of an agent-loop worker's process."""
    return f"turngrid_agent_loop_{index}"


class AgentShell:
    """Process of an agent-loop worker: imports at once, becomes the worker when verl knows its
    arguments.

    Ray may start an async actor's calls in another order than they were sent. So
    ``generate_sequences`` waits for ``become``, which may come before ``open_pool``.
    """

    def __init__(self) -> None:
        self._kind = importlib.import_module("turngrid.verl_plugin.rollout.agent_worker").AgentLoopWorker
        importlib.import_module("verl.utils.tokenizer.continuous_token_wiring")
        self._worker: Any = None
        self._became = asyncio.Event()
        self._failure: Exception | None = None
        self._pool: Any = None

    async def open_pool(self, env: dict[str, Any], legal: bool) -> None:
        """Start the environment processes early. If they fail to start, the first reset raises."""
        if self._worker is not None and self._worker.playing:
            return  # the loop has started its own processes
        self._pool = importlib.import_module("turngrid.envs.hosting.pool").pool_of(env, legal=legal)
        if self._worker is not None:
            self._worker.pool = self._pool
        await self._pool.__aenter__()

    async def become(self, *arguments: Any) -> None:
        """Create the worker with these arguments. If that fails, ``generate_sequences`` raises the
        error.
        """
        try:
            self._worker, self._failure = self._kind(*arguments), None
        except Exception as error:
            self._failure = error
            raise
        finally:
            self._became.set()
        self._worker.pool = self._pool
        gc.collect()
        gc.freeze()  # exempt the imported modules from garbage collection
        gc.set_threshold(COLLECTED_AFTER)

    async def generate_sequences(self, batch: Any) -> None:
        await self._became.wait()
        if self._failure:
            raise self._failure
        await self._worker.generate_sequences(batch)
