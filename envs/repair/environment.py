"""``env=repo_repair``: small bugs in small libraries, made here, so that nothing has to be downloaded."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envs.environment import GameRecord, Params, PromptStyle
from envs.repair.commands import FORM, FUNCTIONS
from envs.repair.repairs import RepairEnvironment, refuse
from envs.types import TaskError
from envs.utils.names import nearest

_LEVELS = ("easy", "medium", "hard")
_TURNS = {"easy": 12, "medium": 16, "hard": 24}
_CPU_S = 6.0  # of a run of tests that takes a third of a second
_TEST_SPLITS = ("unseen_libraries", "seen_libraries")
_TASKS = ("all", *(f"{kind}-{level}" for kind in ("lines", "tests") for level in _LEVELS))
_HELD_OUT = ("test", "test_paper", "validation")


@dataclass(frozen=True)
class Settings:
    """What ``env=repo_repair`` adds to the ``env`` node; conf/env/repo_repair.yaml says what each means."""

    test_split: str
    sandbox: str
    tests_deadline_s: float = field(metadata={"range": (1, 86400)})
    memory_mib: int = field(metadata={"range": (64, 2**20)})
    show_lines: int = field(metadata={"range": (1, 10**6)})
    show_chars: int = field(metadata={"range": (1, 10**6)})


class RepoRepair(RepairEnvironment):
    """Tasks: ``all``; ``lines-LEVEL`` by the length of the repair; ``tests-LEVEL`` by the number of tests; or the name of
    a library."""

    name = "repo_repair"
    prompt = PromptStyle("You are repairing a bug in a small Python library.", FORM, FUNCTIONS)
    Settings = Settings
    examples = _TASKS

    @functools.cached_property
    def version(self) -> str:
        from envs.repair import libraries

        return libraries.digest()[:16]

    def parse_task(self, task: str) -> dict[str, Any]:
        from envs.repair import libraries

        if self.settings.test_split not in _TEST_SPLITS:
            near = nearest(self.settings.test_split, _TEST_SPLITS)
            raise TaskError(f"env.test_split={self.settings.test_split!r} is unknown; did you mean {near}?")
        refuse(self.settings)
        kind, _, level = str(task).partition("-")
        known = task == "all" or (kind in ("lines", "tests") and level in _LEVELS) or task in libraries.TESTS
        if not known:
            raise TaskError(
                f"unknown task {task!r} of repo_repair; did you mean {nearest(task, [*_TASKS, *libraries.TESTS])}?"
            )
        sizes = {name: level if kind == name else "" for name in ("lines", "tests")}
        library = task if task in libraries.TESTS else ""
        return {**sizes, "library": library, "test_split": self.settings.test_split}

    def for_split(self, params: Params, split: str) -> dict[str, Any]:
        """Libraries of a split, and which share of their bugs is its own."""
        from envs.games.catalogue import SPLITS
        from envs.repair.drawing import SAME

        apart = self.settings.test_split == "unseen_libraries" and not params["library"]
        unseen = apart and split in _HELD_OUT
        return {
            "libraries": [params["library"]] if params["library"] else _libraries(params["tests"], unseen=unseen),
            "lines": params["lines"],
            "shares": "unseen" if unseen else "seen",
            "split": SAME.get(split, split),
            "first": SPLITS[split].first,
        }

    def seeds(self, params: Params, split: str) -> Sequence[int] | None:
        """Repairs of one line are listed, one seed each; longer ones are drawn without end."""
        if params["lines"] != "easy":
            return None
        from envs.repair.making import listed

        return range(params["first"], params["first"] + len(listed(params)))

    def max_turns(self, task: str) -> int:
        return _TURNS[self.parse_task(task)["lines"] or "hard"]

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        from envs.repair.making import make

        return make(params, seed, folder, self._setup(), self.name)

    def cpu_s(self, deadline_s: float) -> float:
        return min(deadline_s, _CPU_S)


def _libraries(tests: str, *, unseen: bool) -> list[str]:
    """The libraries to train on, or the ones held out; of one size of test suite where the task asks for it."""
    from envs.repair import libraries

    low, high = libraries.SUITES[tests] if tests else (1, max(libraries.TESTS.values()))
    chosen = [name for name, size in libraries.TESTS.items() if low <= size <= high]
    return sorted(name for name in chosen if (name in libraries.UNSEEN) == unseen)
