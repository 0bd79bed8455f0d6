"""Stand-ins of ``benchmarks.scale``: a server that answers after a set latency, and an environment
that costs nothing. The agent loop between them is a run's own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from turngrid.envs.environment import Environment, GameRecord, Params, PromptStyle
from turngrid.envs.text_env import RawStep, TextEnv
from turngrid.envs.types import Observation, TaskRef

SEEN = (
    "You are in a kitchen. There is a chest here. It is closed. You see a red door to the north. "
    "You carry a key and a lamp."
)
COMMANDS = ("look", "inventory", "go north", "go south", "go east", "go west")  # none of them ends a game


@dataclass
class Answer:
    """The fields of verl's ``TokenOutput``, without importing verl in the server's process."""

    token_ids: list[int]
    log_probs: list[float]
    stop_reason: str = "completed"
    extra_fields: dict[str, int] = field(default_factory=lambda: {"global_steps": 1})


class StubServer:
    """Answers each request a set time after it came, as a vLLM server with room for all.

    ``answers`` are token ids. Episode and turn choose among them, so that a group's samples differ.
    """

    def __init__(self, answers: Sequence[Sequence[int]]) -> None:
        self._answers = [list(answer) for answer in answers]
        self._logprobs = [-0.01 * (number % 300) - 1e-3 for number in range(max(map(len, answers)))]
        self.begin(latency=0.0)

    async def generate(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> Answer:
        start = time.perf_counter()
        await asyncio.sleep(self._latency)
        answer = self._answers[crc32(f"{request_id} {len(prompt_ids)}".encode()) % len(self._answers)]
        self.answered += 1
        self.waited += time.perf_counter() - start
        return Answer(answer, self._logprobs[: len(answer)])

    def begin(self, latency: float) -> None:
        """Reset the counts and set the latency."""
        self._latency, self.answered, self.waited = latency, 0, 0.0

    def stats(self) -> tuple[int, float]:
        """Return the requests answered so far, and the seconds that they took here."""
        return self.answered, self.waited


class IdleEnv(TextEnv):
    """Returns the same observation at every step."""

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        return Observation(SEEN, goal=task.goal)

    def step_game(self, command: str) -> RawStep:
        return RawStep(Observation(SEEN), 0.0)


class Idle(Environment):
    """An environment whose games take no time, to measure the rest of its process."""

    name = "idle"
    rewards = ("sparse",)
    prompt = PromptStyle("You play a game.", "Answer with one command.")
    version = "1"

    def parse_task(self, task: str) -> dict[str, Any]:
        return {}

    def max_turns(self, task: str) -> int:
        return 16

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        raise NotImplementedError("the games of another environment serve as its tasks")

    def env(self, *, legal: bool = False, expert: bool = False) -> TextEnv:
        return IdleEnv()
