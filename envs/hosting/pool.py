"""Many games at once: sessions on a few worker processes, each of which plays many games in turn.

What a worker forgets when it dies, the sessions remember: each keeps its task and its actions, and plays them again on
the new process before its next step. Only the session whose game hung or killed its worker hears of it, and only if the
same action does so again on the new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Self

from envs import registry
from envs.extensions import shipped
from envs.hosting.process import Message, WorkerLost, WorkerProcess
from envs.types import EnvError, GameStuck, Observation, StepResult, TaskRef

_RESET_DEADLINE_S = 60.0


class EnvPool:
    """An asynchronous context; to be used from the event loop that entered it.

    ``workers`` processes share the sessions; a step that takes longer than ``step_deadline_s`` (seconds, counted from
    when the worker turns to it) is given up. ``settings`` are the environment's own, or the whole ``env`` node that
    holds them.
    ``legal`` and ``expert`` fill those fields of every observation.
    """

    def __init__(
        self,
        env_name: str,
        workers: int,
        step_deadline_s: float,
        *,
        settings: Mapping[str, Any] | None = None,
        legal: bool = False,
        expert: bool = False,
    ) -> None:
        spec = registry.spec(env_name)  # a wrong name is answered here, not in a worker
        chosen = registry.plain({**shipped("env", env_name), **(settings or {})})
        self._step_deadline_s = step_deadline_s
        options = {"legal": legal, "expert": expert}
        self._slots = [_Slot(spec, options, chosen) for _ in range(workers)]
        self._opened = 0

    async def __aenter__(self) -> Self:
        try:
            await asyncio.gather(*(slot.worker() for slot in self._slots))
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def open(self) -> Session:
        """A session on the worker with the fewest of them."""
        slot = min(self._slots, key=lambda slot: slot.sessions)
        self._opened += 1
        return Session(slot, self._opened, self._step_deadline_s)

    async def close(self) -> None:
        """End the worker processes; open sessions are of no use afterwards."""
        await asyncio.gather(*(slot.close() for slot in self._slots))

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers that are running."""
        return [slot.process.pid for slot in self._slots if slot.process and slot.process.alive]


def pool_of(env: Mapping[str, Any], *, legal: bool = False, expert: bool = False) -> EnvPool:
    """The pool that the ``env`` node of a config describes."""
    return EnvPool(env["name"], env["workers"], env["step_deadline_s"], settings=env, legal=legal, expert=expert)


class _Slot:
    """The place of one worker process, and of the one that replaces it when it dies."""

    def __init__(self, spec: str, options: dict[str, bool], settings: Message) -> None:
        self._spec, self._options, self._settings = spec, options, settings
        self._lock = asyncio.Lock()
        self._closed = False
        self.process: WorkerProcess | None = None
        self.sessions = 0

    async def worker(self) -> WorkerProcess:
        if self.process is not None and self.process.alive and not self._closed:
            return self.process
        async with self._lock:
            if self._closed:
                raise EnvError("the pool is closed")
            if self.process is None or not self.process.alive:
                if self.process is not None:
                    await self.process.close()
                self.process = await WorkerProcess.start(self._spec, self._options, self._settings)
            return self.process

    async def close(self) -> None:
        async with self._lock:
            self._closed = True
            if self.process is not None:
                await self.process.close()
                self.process = None


class Session:
    """One game at a time; ``reset`` opens the next episode, also after an ``EnvError``."""

    def __init__(self, slot: _Slot, number: int, step_deadline_s: float) -> None:
        self._slot, self._number, self._step_deadline_s = slot, number, step_deadline_s
        self._reset_deadline_s = max(_RESET_DEADLINE_S, step_deadline_s)
        self._opening: Message = {}
        self._actions: list[str] = []
        self._seen = ""
        self._on: WorkerProcess | None = None
        slot.sessions += 1

    async def reset(self, task: TaskRef, seed: int) -> Observation:
        """Open an episode.

        Raises:
            EnvError: the game cannot be played.
        """
        self._opening, self._actions = {}, []
        opening = {"op": "reset", "task": task.to_dict(), "seed": seed}
        reply = await self._play(opening, self._reset_deadline_s)
        self._opening, self._seen = opening, reply["text"]
        return _observation(reply)

    async def step(self, action: str) -> StepResult:
        """Play one action.

        Raises:
            EnvError: no episode is open, or the environment failed. The episode is over.
            GameStuck: the game hung twice at this action, or killed its worker twice. The episode is over.
        """
        if not self._opening:
            raise EnvError("no episode is open: reset first")
        action = action.encode("utf-8", "replace").decode()  # half a character cannot travel
        reply = await self._play({"op": "step", "action": action}, self._step_deadline_s)
        self._actions.append(action)
        self._seen = reply["observation"]["text"]
        return _result(reply)

    async def finish(self) -> StepResult:
        """Grade the open episode as it stands; it is over.

        Raises:
            EnvError: as ``step`` does.
        """
        if not self._opening:
            raise EnvError("no episode is open: reset first")
        reply = await self._play({"op": "finish"}, self._step_deadline_s)
        self._opening = {}
        return _result(reply)

    async def close(self) -> None:
        """Hand the game back to its worker for the next session."""
        self._slot.sessions -= 1
        if self._on is not None and self._on.alive:
            try:
                await self._ask(self._on, {"op": "close"}, self._step_deadline_s)
            except WorkerLost:
                pass  # it forgot the game already
        self._opening, self._on = {}, None

    async def _play(self, message: Message, deadline_s: float) -> Message:
        """Ask the worker, on a new one if need be, after playing again what the old one had seen."""
        try:
            return await self._try(message, deadline_s)
        except BaseException:  # cancelled in the middle of a step, we do not know what the game has seen
            self._opening = {}
            raise

    async def _try(self, message: Message, deadline_s: float) -> Message:
        """Workers that other sessions brought down count for nothing here, however many they are: each of those sessions
        has two tries."""
        blamed: set[bool] = set()
        while True:
            worker = await self._slot.worker()
            try:
                await self._catch_up(worker)
                return await self._ask(worker, message, deadline_s)
            except WorkerLost as lost:
                if lost.culprit and lost.hung in blamed:
                    raise GameStuck(f"the game failed twice at the same action: {lost}") from lost
                if lost.culprit:
                    blamed.add(lost.hung)

    async def _catch_up(self, worker: WorkerProcess) -> None:
        if self._on is worker or not self._opening:
            self._on = worker
            return
        text = (await self._ask(worker, self._opening, self._reset_deadline_s))["text"]
        for action in self._actions:
            reply = await self._ask(worker, {"op": "step", "action": action}, self._step_deadline_s)
            text = reply["observation"]["text"]
        if text != self._seen:
            raise EnvError("the game took another course when it was played again on a new worker")
        self._on = worker

    async def _ask(self, worker: WorkerProcess, message: Message, deadline_s: float) -> Message:
        return await worker.request({**message, "session": self._number}, deadline_s)


def _observation(data: dict[str, Any]) -> Observation:
    return Observation(data["text"], data["goal"], tuple(data["legal"]), tuple(data["expert"]))


def _result(reply: Message) -> StepResult:
    return StepResult(**{**reply, "observation": _observation(reply["observation"])})
