"""A game of a simulator in the JVM of this process."""

import abc
import contextlib
import json
from dataclasses import replace
from typing import Any

from turngrid.envs.jvm.machine import JvmGone
from turngrid.envs.text_env import RawStep, TextEnv, accepted_file
from turngrid.envs.types import EnvError, Observation, TaskRef


class JvmEnv(TextEnv):
    """One game at a time. If the JVM dies, the episode is played again in a new one.

    A subclass implements ``open_game`` and ``play``.
    """

    def __init__(self, *, legal: bool = False, expert: bool = False) -> None:
        self._legal, self._expert = legal, expert

    @abc.abstractmethod
    def open_game(self, game: dict[str, Any]) -> str:
        """Start the game of a file's content; return the first text.

        Raises:
            JvmGone: the JVM died.
        """

    @abc.abstractmethod
    def play(self, command: str) -> RawStep:
        """Play a command.

        Raises:
            InvalidAction: as ``step_game``.
            JvmGone: the JVM died.
        """

    @abc.abstractmethod
    def commands(self) -> tuple[str, ...]:
        """Return what the simulator accepts now."""

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        self._game = json.loads(accepted_file(task).read_bytes())
        self._rest: tuple[str, ...] | None = task.expert_plan
        self._played: list[str] = []
        with contextlib.suppress(JvmGone):
            return self._opened()
        return self._opened()

    def _opened(self) -> Observation:
        self._seen = self.open_game(self._game)
        return self.observe_message(self._seen)

    def step_game(self, command: str) -> RawStep:
        try:
            step = self._step(command)
        except JvmGone:
            self._play_again()
            step = self._step(command)
        self._played.append(command)
        self._seen = step.observation.text
        return step

    def _step(self, command: str) -> RawStep:
        step = self.play(command)
        if step.valid:
            self._rest = self._rest[1:] if self._rest and self._rest[0] == command else None
        if step.won or step.lost or step.terminated:
            return step
        return replace(step, observation=self.observe_message(step.observation.text))

    def _play_again(self) -> None:
        text = self.open_game(self._game)
        for command in self._played:
            text = self.play(command).observation.text
        if text != self._seen:
            raise EnvError("the game took another course when it was played again in a new JVM")

    def observe_message(self, message: str) -> Observation:
        expert = self._rest or () if self._expert else ()
        return Observation(message, legal=self.commands() if self._legal else (), expert=expert)
