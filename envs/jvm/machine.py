"""A Java virtual machine beside this process, reached through py4j, and games of its simulator.

A process that makes or plays games has one for each simulator. It has a bounded heap, listens on
the loopback with a token, and ends when its standard input closes: with this process, however that
ends.
"""

import abc
import contextlib
import logging
import operator
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from turngrid.envs.environment import Rejected
from turngrid.envs.text_env import RawStep, TextEnv, accepted_json
from turngrid.envs.types import EnvError, Observation, TaskError, TaskRef
from turngrid.envs.utils.parent import die_with_parent

_OPTIONS = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:+ExitOnOutOfMemoryError",
    # Equal identity hashes, so that sets of objects keep their order of insertion. With HotSpot's
    # own, ScienceWorld answers the same actions with other texts in each JVM.
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:hashCode=2",
)
REPLAYS = 2  # of a gold path; game_record adds one
FOLDS = {"test": "test", "validation": "dev"}  # the simulators' names of splits; other splits: train
Answer = TypeVar("Answer")
logging.getLogger("py4j.java_gateway").setLevel(logging.CRITICAL)  # it logs a dead JVM's objects, one by one


def check_java(env: str) -> None:
    """Raise TaskError, with the command that installs it, if there is no java."""
    if _java() is None:
        raise TaskError(f"env={env} needs java on the PATH or in JAVA_HOME: apt-get install default-jre-headless")


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return (shutil.which("java", path=f"{home}/bin") if home else None) or shutil.which("java")


class Jvm:
    """A running JVM with a simulator's jar.

    Attributes:
        names: its packages and classes.
        active: the game whose values the simulator's global variables have.

    Raises:
        EnvError: it does not start.
    """

    def __init__(self, archive: Path) -> None:
        from py4j.java_gateway import GatewayParameters, JavaGateway

        self._process, port, token = _start(archive)
        parameters = GatewayParameters(address="127.0.0.1", port=port, auth_token=token)
        self.names = JavaGateway(gateway_parameters=parameters).jvm
        self.active: Any = None
        self.ask(self._be_quiet)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, call: Callable[..., Answer], *arguments: Any) -> Answer:
        """Call a method of the simulator.

        Raises:
            EnvError: the method threw an exception, or the JVM died.
        """
        from py4j.protocol import Py4JError, Py4JJavaError

        try:
            return call(*arguments)
        except Py4JJavaError as error:
            raise EnvError(f"the simulator failed: {error.java_exception.toString()}") from error
        except (Py4JError, OSError) as error:  # the class depends on when the connection broke
            self.close()
            raise EnvError(f"the simulator's JVM died: {error}") from error

    def scala_object(self, name: str) -> Any:
        """Return a singleton such as ``scala.util.Random``."""
        return operator.attrgetter(f"{name}$.MODULE$")(self.names)

    def _be_quiet(self) -> None:
        """Discard what the simulator prints at each step, and close its pipe."""
        nothing = self.names.java.io.PrintStream(os.devnull)
        self.names.java.lang.System.setOut(nothing)
        self.names.java.lang.System.setErr(nothing)
        assert self._process.stdout
        self._process.stdout.close()

    def close(self) -> None:
        assert self._process.stdin
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.kill()
        self._process.wait()


def _start(archive: Path) -> tuple["subprocess.Popen[str]", int, str]:
    """Start py4j's server; return its process, port and token."""
    process = subprocess.Popen(
        _command(archive),
        cwd=archive.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - one prctl call; for a JVM that is stopped and reads nothing
    )
    assert process.stdout
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line.strip())
        if lines[-1].isdigit():
            return process, int(lines[-1]), process.stdout.readline().strip()
    process.wait()
    raise EnvError(f"java does not start: {' '.join(lines)[-300:]}")


def _command(archive: Path) -> list[str]:
    from py4j.java_gateway import find_jar_path

    classpath = f"{find_jar_path()}{os.pathsep}{archive}"
    server = ["py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0"]
    return [_java() or "java", "-classpath", classpath, *_OPTIONS, *server]


_running: dict[str, Jvm] = {}


def jvm(package: str, archive: str) -> Jvm:
    """Return this process's JVM of a simulator; a new one if it died.

    Args:
        archive: the jar in the folder of the installed package, which is not imported.
    """
    if package not in _running or not _running[package].alive:
        spec = find_spec(package)
        assert spec is not None and spec.origin is not None
        _running[package] = Jvm(Path(spec.origin).with_name(archive))
    return _running[package]


def close_all() -> None:
    """End this process's JVMs; the next game starts another."""
    while _running:
        _running.popitem()[1].close()


def check_gold(score: float, best: float, replays: Sequence[Any], length: int, turns: int) -> None:
    """Reject a simulator's gold path that does not win, is too long, or differs when replayed."""
    if score != best:
        raise Rejected(f"the gold path ends with a score of {score:g}")
    if any(replay != replays[0] for replay in replays):
        raise Rejected("the gold path takes another course when it is played again")
    if length > turns:
        raise Rejected(f"a gold path of more than {turns} actions")


class JvmEnv(TextEnv):
    """One game at a time. If the JVM dies, its episodes fail, and are run again in a new one.

    A subclass implements ``open_game``, ``play`` and ``legal_actions``.

    Attributes:
        simulator_class: that of ``simulator``, with its ``machine``; it runs one game.
    """

    simulator_class: ClassVar[type[Any]]
    simulator: Any = None

    @abc.abstractmethod
    def open_game(self, game: dict[str, Any]) -> str:
        """Start the game of a file's content; return the first text."""

    @abc.abstractmethod
    def play(self, command: str) -> RawStep:
        """Run a command, as ``step_game``."""

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        self._game = accepted_json(task)
        self._rest = task.expert_plan
        try:
            return self._opened()
        except EnvError:
            if self.simulator is None or self.simulator.machine.alive:
                raise
        return self._opened()  # a JVM also ends with the thread that started it, such as that of a maker of games

    def _opened(self) -> Observation:
        if self.simulator is None or not self.simulator.machine.alive:
            self.simulator = self.simulator_class()
        return self.observe_message(self.open_game(self._game))

    def step_game(self, command: str) -> RawStep:
        step = self.play(command)
        if step.valid:
            self._rest = self._rest[1:] if self._rest[:1] == (command,) else ()
        if step.won or step.lost or step.terminated:
            return step
        return replace(step, observation=self.observe_message(step.observation.text))

    def expert_actions(self) -> tuple[str, ...]:
        return self._rest
