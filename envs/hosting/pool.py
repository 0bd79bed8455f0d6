"""A pool of worker processes with sessions: many games at once, several on each worker.

If a worker dies, each of its sessions replays its task and actions on the new process before its
next step. Only the session whose game hung or killed the worker gets an error, and only if the same
action does so again on the new process.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, Self

import msgspec

from turngrid.envs import registry
from turngrid.envs.extensions import shipped
from turngrid.envs.functions import action_of
from turngrid.envs.hosting.process import Message, WorkerLost, WorkerProcess
from turngrid.envs.text_env import MAX_CALLS
from turngrid.envs.types import Action, EnvError, GameStuck, Observation, StepResult, TaskRef

_RESET_DEADLINE_S = 60.0


class EnvPool:
    """A pool of environment processes; an asynchronous context of the event loop that enters it.

    Args:
        workers: number of processes that share the sessions.
        step_deadline_s: seconds after which a step, or a call of one, counts as hung, counted from
            its start on the worker.
        settings: the environment's settings, or all of a config's ``env`` node.
        legal: fill this field of each observation.
    """

    def __init__(
        self,
        env_name: str,
        workers: int,
        step_deadline_s: float,
        *,
        settings: Mapping[str, Any] | None = None,
        legal: bool = False,
    ) -> None:
        spec = registry.spec(env_name)  # an unknown name fails here, not in a worker
        chosen = registry.plain({**shipped("env", env_name), **(settings or {})})
        self._step_deadline_s = step_deadline_s
        self._slots = [Slot(spec, chosen, legal) for _ in range(workers)]
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

    async def warm_up(self) -> None:
        """Start the workers early. If one does not start, its first session raises the error."""
        await asyncio.gather(*(slot.worker() for slot in self._slots), return_exceptions=True)

    async def open(self, group: str = "") -> Session:
        """Open a session on the worker that has sessions of its group, else of the fewest sessions.

        Args:
            group: sessions that may share work, such as those of one game; "" for none.
        """
        of_group = [slot for slot in self._slots if group and slot.groups[group]]
        slot = min(of_group or self._slots, key=lambda slot: slot.groups.total())
        self._opened += 1
        return Session(slot, group, self._opened, self._step_deadline_s)

    async def close(self) -> None:
        """End the worker processes; open sessions must not be used afterwards."""
        await asyncio.gather(*(slot.close() for slot in self._slots))

    @property
    def pids(self) -> list[int]:
        return [slot.process.pid for slot in self._slots if slot.process and slot.process.alive]


def pool_of(env: Mapping[str, Any], *, legal: bool = False) -> EnvPool:
    """Return the pool that a config's ``env`` node describes."""
    return EnvPool(env["name"], env["workers"], env["step_deadline_s"], settings=env, legal=legal)


class Slot:
    """One worker process, started on first use, or the one that replaces it when it dies."""

    def __init__(self, spec: str, settings: Message, legal: bool = False) -> None:
        self._start = partial(WorkerProcess.start, spec, settings, legal)
        self._lock = asyncio.Lock()
        self._closed = False
        self.process: WorkerProcess | None = None
        self.groups: Counter[str] = Counter()  # open sessions

    async def worker(self) -> WorkerProcess:
        async with self._lock:
            if self._closed:
                raise EnvError("the pool is closed")
            if self.process is None or not self.process.alive:
                if self.process is not None:
                    await self.process.close()
                self.process = await self._start()
            return self.process

    async def close(self) -> None:
        async with self._lock:
            self._closed = True
            if self.process is not None:
                await self.process.close()
                self.process = None


class Session:
    """One game at a time; ``reset`` opens the next episode, also after an ``EnvError``."""

    def __init__(self, slot: Slot, group: str, number: int, step_deadline_s: float) -> None:
        self._slot, self._group, self._number, self._step_deadline_s = slot, group, number, step_deadline_s
        self._reset_deadline_s = max(_RESET_DEADLINE_S, step_deadline_s)
        self._opening: Message = {}
        self._actions: list[str] = []
        self._seen = ""
        self._on: WorkerProcess | None = None
        slot.groups[group] += 1

    async def reset(self, task: TaskRef, seed: int) -> Observation:
        """Open an episode.

        Raises:
            EnvError: the game cannot be played.
        """
        self._opening, self._actions = {}, []
        opening = {"op": "reset", "task": task.to_dict(), "seed": seed}
        reply = await self._play(opening, self._reset_deadline_s)
        self._opening, self._seen = opening, reply["text"]
        return msgspec.convert(reply, Observation)

    async def step(self, action: str | Action) -> StepResult:
        """Run one action.

        Raises:
            EnvError: no episode is open, or the environment failed. The episode is over.
            GameStuck: the game hung or killed its worker twice at this action. The episode is over.
        """
        if not self._opening:
            raise EnvError("no episode is open: reset first")
        text = str(action).encode("utf-8", "replace").decode()  # half a surrogate pair is no JSON
        reply = await self._play({"op": "step", "action": text}, self._deadline_s(text))
        self._actions.append(text)
        self._seen = reply["observation"]["text"]
        return msgspec.convert(reply, StepResult)

    async def finish(self) -> StepResult:
        """Grade the open episode and end it."""
        if not self._opening:
            raise EnvError("no episode is open: reset first")
        reply = await self._play({"op": "finish"}, self._step_deadline_s)
        self._opening = {}
        return msgspec.convert(reply, StepResult)

    async def close(self) -> None:
        """Return the game to its worker for the next session."""
        self._slot.groups -= Counter([self._group])  # without names that have none left
        if self._on is not None and self._on.alive:
            with contextlib.suppress(WorkerLost):
                await self._ask(self._on, {"op": "close"}, self._step_deadline_s)
        self._opening, self._on = {}, None

    async def _play(self, message: Message, deadline_s: float) -> Message:
        """Send a message; if the worker is new, replay the episode on it first."""
        try:
            return await self._try(message, deadline_s)
        except BaseException:  # if cancelled in a step, the game's state is unknown
            self._opening = {}
            raise

    async def _try(self, message: Message, deadline_s: float) -> Message:
        """Send a message until a worker survives it; fail if it hangs or kills two workers.

        Losses caused by other sessions do not count.
        """
        blamed = False
        while True:
            try:
                worker = self._on if self._on and self._on.alive else await self._moved()
                return await self._ask(worker, message, deadline_s)
            except WorkerLost as lost:
                if lost.culprit and blamed:
                    raise GameStuck(f"the game failed twice at the same action: {lost}") from lost
                blamed = blamed or lost.culprit

    async def _moved(self) -> WorkerProcess:
        """Return the slot's new worker, on which the open episode has been replayed."""
        worker = await self._slot.worker()
        if self._opening:
            text = (await self._ask(worker, self._opening, self._reset_deadline_s))["text"]
            for action in self._actions:
                reply = await self._ask(worker, {"op": "step", "action": action}, self._deadline_s(action))
                text = reply["observation"]["text"]
            if text != self._seen:
                raise EnvError("the game took another course when it was played again on a new worker")
        self._on = worker
        return worker

    def _deadline_s(self, action: str) -> float:
        """Return the seconds for an action, each of whose calls may take as long as a step."""
        return self._step_deadline_s * min(MAX_CALLS, len(action_of(action).calls) or 1)

    async def _ask(self, worker: WorkerProcess, message: Message, deadline_s: float) -> Message:
        return await worker.request({**message, "session": self._number}, deadline_s)
