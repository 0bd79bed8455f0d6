"""Provides verl with agent-loop workers (``...rollout.agent.agent_loop_manager_class``)."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import ray
from omegaconf import DictConfig
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


class WorkerActors(AgentLoopManagerTQ):
    """verl's manager of several workers, which are Ray actors."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class: Any = ray.remote(AgentLoopWorker)

    def write(self, step: int, requests: Sequence[Request]) -> list[Written]:
        """Let the policy write texts, through the first worker."""
        return ray.get(self.agent_loop_workers[0].write.remote(step, requests))

    def close(self) -> None:
        """Do nothing: the actors end with Ray."""


class AgentLoopManager:
    """What the config names; the trainer's agent loop is what ``create`` returns."""

    @staticmethod
    def create(config: DictConfig, llm_client: Any) -> WorkerThread | WorkerActors:
        """Return one worker in a thread, or several actors of 430 MiB and 5 CPU s to start each."""
        if config.actor_rollout_ref.rollout.agent.num_workers == 1:
            return WorkerThread(config, llm_client)
        return WorkerActors.create(config=config, llm_client=llm_client)
