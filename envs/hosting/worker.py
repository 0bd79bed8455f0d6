"""A worker process: runs or makes many games of one environment, one request at a time.

``turngrid.envs.hosting.process`` starts it with a socket as standard input. The first line names
the environment; each further line is one JSON request and gets one JSON line back, in order. The
process ends when the socket closes or its parent is gone.
"""

import dataclasses
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from turngrid.envs.environment import Environment, Rejected
from turngrid.envs.registry import load_environment
from turngrid.envs.text_env import TextEnv
from turngrid.envs.types import EnvError, Observation, StepResult, TaskRef
from turngrid.envs.utils import stacks
from turngrid.envs.utils.parent import die_with_parent
from turngrid.envs.utils.printable import printable

Message = dict[str, Any]
Reply = TypeVar("Reply")


class Sessions:
    """The open sessions of this process; a closed session's env object is reused."""

    def __init__(self, environment: Environment, legal: bool) -> None:
        self._environment, self._legal = environment, legal
        self.module = type(environment).__module__
        self._playing: dict[int, TextEnv] = {}
        self._free: list[TextEnv] = []

    def reset(self, request: Message) -> Observation:
        session = request["session"]
        if session not in self._playing:
            self._playing[session] = self._free.pop() if self._free else self._environment.new_env(legal=self._legal)
        task = TaskRef.from_dict(request["task"])
        return self._guard(session, lambda env: env.reset(task, request["seed"]))

    def step(self, request: Message) -> StepResult:
        return self._guard(request["session"], lambda env: env.step(request["action"]))

    def finish(self, request: Message) -> StepResult:
        return self._guard(request["session"], TextEnv.finish)

    def close(self, request: Message) -> Message:
        env = self._playing.pop(request["session"], None)
        if env is not None:
            self._free.append(env)
        return {}

    def make(self, request: Message) -> Message:
        try:
            record = self._environment.game_record(request["params"], request["seed"], Path(request["folder"]))
        except Rejected as reason:
            return {"rejected": printable(str(reason))}
        return {"record": dataclasses.asdict(record)}

    def _guard(self, session: int, play: Callable[[TextEnv], Reply]) -> Reply:
        """Drop an env that failed, since its state is unknown; the next reset gets another one."""
        try:
            return play(self._playing[session])
        except Exception:
            self._playing.pop(session, None)
            raise


def described(error: BaseException, module: str) -> str:
    """Return ``TYPE: MESSAGE at FILE:LINE: CODE``; for an ``EnvError`` only the message.

    Args:
        module: name the innermost line in this module's top-level package; if there is none, the
            innermost line of all.
    """
    if isinstance(error, EnvError):
        return str(error)
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    lines = traceback.extract_tb(error.__traceback__)
    packages = [str(frame.f_globals.get("__name__", "")).partition(".")[0] for frame in frames]
    own = [line for line, package in zip(lines, packages, strict=True) if package == module.partition(".")[0]]
    shown = [f" at {line.filename}:{line.lineno}: {line.line}" for line in own or lines]
    return f"{type(error).__name__}: {error}{shown[-1] if shown else ''}"


def answer(sessions: Sessions, request: Message) -> bytes:
    """Return the reply; an exception is sent as text, also that of an ``info`` that is no JSON."""
    try:
        return msgspec.json.encode({"ok": getattr(sessions, request["op"])(request)})
    except Exception as error:  # noqa: BLE001 - an environment may raise any exception
        return msgspec.json.encode({"error": printable(described(error, sessions.module))})


def serve(lines: BinaryIO, replies: BinaryIO) -> None:
    def reply(line: bytes) -> None:
        replies.write(line + b"\n")
        replies.flush()

    hello = msgspec.json.decode(lines.readline())
    sessions = Sessions(load_environment(hello["environment"], hello["settings"]), hello["legal"])
    reply(msgspec.json.encode({"ok": {}}))
    for line in lines:
        reply(answer(sessions, msgspec.json.decode(line)))


def _take_socket() -> tuple[BinaryIO, BinaryIO]:
    """Keep the socket from games: they print to the log and read end of file."""
    private = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.dup2(2, 1)
    return os.fdopen(private, "rb"), os.fdopen(os.dup(private), "wb")


if __name__ == "__main__":
    die_with_parent()  # a process that hangs in a game does not read its socket
    stacks.register()
    serve(*_take_socket())
