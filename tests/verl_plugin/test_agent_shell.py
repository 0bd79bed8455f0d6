"""The process of an agent-loop worker, whose calls Ray may start in any order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from turngrid.verl_plugin.rollout.agent_shell import AgentShell


class Recorded:
    """A worker that writes down what it is asked to play."""

    def __init__(self, played: list[str]) -> None:
        self.played, self.pool, self.playing = played, None, False

    async def generate_sequences(self, batch: str) -> None:
        self.played.append(batch)


class Refused:
    def __init__(self) -> None:
        raise ValueError("no such prompt")


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> AgentShell:
    monkeypatch.setattr("gc.freeze", lambda: None)
    monkeypatch.setattr("gc.set_threshold", lambda _: None)
    return AgentShell()


async def played_before(shell: AgentShell, kind: type, *arguments: Any) -> None:
    """Asked to play before it became a worker."""
    shell._kind = kind
    play = asyncio.create_task(shell.generate_sequences("step 1"))
    await asyncio.sleep(0)
    await asyncio.gather(shell.become(*arguments), return_exceptions=True)
    await asyncio.wait_for(play, 10)


def test_what_is_asked_before_it_is_a_worker_is_played_after(shell: AgentShell) -> None:
    played: list[str] = []
    asyncio.run(played_before(shell, Recorded, played))
    assert played == ["step 1"]


def test_why_there_is_no_worker_reaches_who_asks_it_to_play(shell: AgentShell) -> None:
    with pytest.raises(ValueError, match="no such prompt"):
        asyncio.run(played_before(shell, Refused))


def test_it_can_become_another_worker(shell: AgentShell) -> None:
    first: list[str] = []
    second: list[str] = []

    async def both() -> None:
        await played_before(shell, Recorded, first)
        await shell.become(second)
        await shell.generate_sequences("step 2")

    asyncio.run(both())
    assert (first, second) == (["step 1"], ["step 2"])


def test_games_that_start_late_are_the_workers_all_the_same(shell: AgentShell, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = asyncio.Semaphore()  # any context manager will do
    monkeypatch.setattr("turngrid.envs.hosting.pool.pool_of", lambda *_, **__: pool)
    shell._kind = Recorded

    async def late() -> Any:
        await shell.become([])
        await shell.open_pool({}, False)
        return shell._worker.pool

    assert asyncio.run(late()) is pool
