"""Provides verl with agent-loop workers (``...rollout.agent.agent_loop_manager_class``)."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import ray
from tensordict import TensorDict
from verl.trainer.ppo.v1 import AgentLoopManagerTQ

from turngrid.algorithms.slots import Request
from turngrid.verl_plugin.rollout.agent_worker import AgentLoopWorker, Written


class WorkerThread:
    """An agent-loop worker whose event loop runs in a thread of this process."""

    def __init__(self, *arguments: Any) -> None:
        self.worker, self._events = AgentLoopWorker(*arguments), asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._events.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.worker.loop.pool.warm_up(), self._events)  # while trackers start

    def generate_sequences(self, batch: TensorDict) -> None:
        asyncio.run_coroutine_threadsafe(self.worker.generate_sequences(batch), self._events).result()

    def write(self, step: int, requests: Sequence[Request]) -> list[Written]:
        return asyncio.run_coroutine_threadsafe(self.worker.write(step, requests), self._events).result()

    def close(self) -> None:
        """End the thread. Episodes that are being sampled are dropped without a report."""
        self._events.set_exception_handler(lambda *_: None)
        self._events.call_soon_threadsafe(self._events.stop)
        self._thread.join()


class AgentLoopManager(AgentLoopManagerTQ):
    """Runs a single worker in this process, and several as Ray actors."""

    thread: WorkerThread | None = None

    async def _init_agent_loop_workers(self) -> None:
        """Run a single worker in a thread: a process would take 430 MiB, and 5 CPU s to start."""
        if self.rollout_config.agent.num_workers == 1:
            self.thread = WorkerThread(self.config, self.llm_client)
            return
        self.agent_loop_workers_class: Any = ray.remote(AgentLoopWorker)
        await super()._init_agent_loop_workers()

    def generate_sequences(self, prompts: TensorDict) -> None:
        """Call a single worker directly, without Ray."""
        if self.thread is None:
            super().generate_sequences(prompts)
        else:
            self.thread.generate_sequences(prompts.copy())

    def write(self, step: int, requests: Sequence[Request]) -> list[Written]:
        """Let the policy write texts, through the first worker."""
        if self.thread is None:
            return ray.get(self.agent_loop_workers[0].write.remote(step, requests))
        return self.thread.write(step, requests)

    def close(self) -> None:
        if self.thread is not None:
            self.thread.close()
