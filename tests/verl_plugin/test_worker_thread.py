"""An agent-loop worker in a thread of the trainer's process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from turngrid.verl_plugin import agent_worker
from turngrid.verl_plugin.agent_worker import WorkerThread


class Worker:
    """Its episodes never end, and its environments do not start."""

    def __init__(self, *_: Any) -> None:
        self.loop = self.pool = self
        self.tasks: list[asyncio.Task[None]] = []

    async def warm_up(self) -> None:
        raise OSError("no process")

    async def generate_sequences(self, batch: Any) -> None:
        if batch is None:
            raise ValueError("no batch")
        self.tasks.append(asyncio.create_task(asyncio.sleep(1000)))


@pytest.fixture
def thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerThread]:
    monkeypatch.setattr(agent_worker, "AgentLoopWorker", Worker)
    made = WorkerThread()
    yield made
    made._events.close()


def test_it_ends_with_episodes_under_way(thread: WorkerThread) -> None:
    thread.generate_sequences("step 1")
    thread.generate_sequences("step 2")
    assert len(thread._worker.tasks) == 2
    thread.close()
    assert not thread._thread.is_alive()


def test_an_error_reaches_the_caller(thread: WorkerThread) -> None:
    with pytest.raises(ValueError, match="no batch"):
        thread.generate_sequences(None)
    thread.close()
