"""``env=repo_repair``: small bugs in small libraries, made here without a download.

``RepairEnvironment`` is the base of all environments whose repairs are graded by tests.
"""

import abc
import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from turngrid.envs.environment import HELD_OUT, Environment, GameRecord, Params, PromptStyle
from turngrid.envs.games.catalogue import SPLITS
from turngrid.envs.repair import bugs
from turngrid.envs.repair.bugs import SUITES, TESTS
from turngrid.envs.repair.commands import FORM, FUNCTIONS
from turngrid.envs.repair.env import RepairEnv, Setup
from turngrid.envs.repair.games import LIMITS, listed, make
from turngrid.envs.repair.grading import Options
from turngrid.envs.repair.instance import Instance
from turngrid.envs.repair.providers import InlineFiles, RepoProvider
from turngrid.envs.sandbox import sandbox
from turngrid.envs.sandbox.sandbox import MODES
from turngrid.envs.sandbox.types import Limits, SandboxError
from turngrid.envs.text_env import TextEnv
from turngrid.envs.types import TaskError, TaskRef

_LEVELS = ("easy", "medium", "hard")
_TURNS = {"easy": 12, "medium": 16, "hard": 24}
_CPU_S = 6.0  # of a test run, which takes 0.3 s
_TASKS = ("all", *(f"{measure}-{level}" for measure in ("lines", "tests") for level in _LEVELS))


@dataclass(frozen=True)
class RepairSettings:
    """Keys of ``env`` for every repair environment; conf/env/repo_repair.yaml explains them."""

    sandbox: str = field(metadata={"choices": MODES})
    tests_deadline_s: float = field(metadata={"range": (1, 86400)})
    memory_mib: int = field(metadata={"range": (64, 2**20)})
    show_lines: int = field(metadata={"range": (1, 10**6)})
    show_chars: int = field(metadata={"range": (1, 10**6)})


class RepairEnvironment(Environment):
    """Repair a repository by commands; its tests grade the repair."""

    rewards = ("ratio", "binary", "pass_ratio_reference", "judge", "sparse")
    grades_unfinished = True
    agent_stops = True
    python = sys.executable  # runs the tests

    @property
    def longest_step_s(self) -> float:  # type: ignore[override]
        """The deadline of a test run."""
        return self.settings.tests_deadline_s

    @property
    def longest_making_s(self) -> float:  # type: ignore[override]
        """Time for tests of the broken and the repaired repository, and for its checkout."""
        return 600.0 + 4 * self.settings.tests_deadline_s

    def env(self, *, legal: bool = False, expert: bool = False) -> TextEnv:
        return RepairEnv(self.setup(), legal=legal)

    def setup(self) -> Setup:
        settings = self.settings
        deadline = settings.tests_deadline_s
        limits = Limits(deadline, self.cpu_s(deadline), settings.memory_mib)
        options = Options(settings.sandbox, self.python, limits)
        return Setup(settings.show_lines, settings.show_chars, self.provider, options)

    @abc.abstractmethod
    def cpu_s(self, deadline_s: float) -> float:
        """Return the CPU seconds of a test run that may last ``deadline_s`` seconds."""

    def provider(self, instance: Instance) -> RepoProvider:
        """Return the provider of an instance's repository; by default, its own files."""
        return InlineFiles()

    def check_settings(self) -> None:
        """Raise TaskError if the sandbox does not work here."""
        try:
            sandbox.level(self.settings.sandbox)
        except SandboxError as error:
            raise TaskError(str(error)) from error


@dataclass(frozen=True)
class RepoRepairSettings(RepairSettings):
    test_split: str = field(metadata={"choices": ("unseen_libraries", "seen_libraries")})


class RepoRepair(RepairEnvironment):
    """Tasks: ``all``; ``lines-LEVEL`` by the length of the repair; ``tests-LEVEL`` by the number of
    tests; or the name of a library."""

    name = "repo_repair"
    prompt = PromptStyle("You are repairing a bug in a small Python library.", FORM, FUNCTIONS)
    Settings = RepoRepairSettings
    examples = _TASKS

    @functools.cached_property
    def version(self) -> str:
        return bugs.digest()[:16]

    def parse_task(self, task: str) -> dict[str, Any]:
        self.check_settings()
        if task not in _TASKS and task not in TESTS:
            raise self.unknown(task, [*_TASKS, *TESTS])
        measure, _, level = str(task).partition("-")
        sizes = {name: level if measure == name else "" for name in ("lines", "tests")}
        return {**sizes, "library": task if task in TESTS else "", "test_split": self.settings.test_split}

    def for_split(self, params: Params, split: str) -> dict[str, Any]:
        """Choose a split's libraries, and its share of their bugs."""
        apart = self.settings.test_split == "unseen_libraries" and not params["library"]
        unseen = apart and split in HELD_OUT
        low, high = SUITES[params["tests"]] if params["tests"] else (1, max(TESTS.values()))
        fitting = [name for name, size in TESTS.items() if low <= size <= high and (name in bugs.UNSEEN) == unseen]
        return {
            "libraries": [params["library"]] if params["library"] else sorted(fitting),
            "lines": params["lines"],
            "shares": "unseen" if unseen else "seen",
            "split": bugs.SAME.get(split, split),
            "first": SPLITS[split].start,
        }

    def seeds(self, params: Params, split: str) -> Sequence[int] | None:
        """List one seed for each repair of ``lines-easy``; other tasks draw without end (None)."""
        if params["lines"] != "easy":
            return None
        return range(params["first"], params["first"] + len(listed(params)))

    def max_turns(self, task: str) -> int:
        return _TURNS[self.parse_task(task)["lines"] or "hard"]

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        return make(params, seed, folder, self.setup())

    def _wins(self, task: TaskRef) -> bool:
        """Play with the limits under which games are made, so that the run's change no game."""
        limits = {"tests_deadline_s": LIMITS.wall_s, "memory_mib": LIMITS.memory_mib}
        return Environment._wins(type(self)(replace(self.settings, **limits)), task)

    def cpu_s(self, deadline_s: float) -> float:
        return min(deadline_s, _CPU_S)
