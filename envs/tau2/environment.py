"""tau2-bench's telecom tickets without a user: ``env=tau2 env.data_dir=CLONE`` (docs/tau2.md)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from turngrid.envs.environment import Environment, GameRecord, Params, PromptStyle
from turngrid.envs.tau2.clone import CLONE, DONE, NEEDED, PACKAGES, SPLITS, source, tasks
from turngrid.envs.text_env import TextEnv
from turngrid.envs.types import TaskError
from turngrid.envs.utils.names import nearest

POLICIES = {"telecom": "manual", "telecom-workflow": "workflow"}  # tau2's names
# The official training tasks by the last digit of their place.
SPLIT_DIGITS = {"validation": "0", "demonstrations": "123", "train": "456789"}


@dataclass(frozen=True)
class Tau2Settings:
    """Keys of ``env`` for ``env=tau2``.

    Attributes:
        data_dir: a clone of tau2-bench.
        training: ``train``: tau2's training tasks; ``full``: all but its test tasks.
    """

    data_dir: str | None
    training: str


class Tau2(Environment):
    """Tasks: the names of tau2's telecom domains. A seed is a task's place in tau2's file."""

    name = "tau2"
    prompt = PromptStyle("You are a customer service agent and solve a ticket by calls.", functions=(DONE,))
    Settings = Tau2Settings
    examples = tuple(POLICIES)
    agent_stops = True
    settings: Tau2Settings

    def parse_task(self, task: str) -> dict[str, Any]:
        if task not in POLICIES:
            near = nearest(task, POLICIES)
            raise TaskError(f"unknown task {task!r} of tau2; use {near} ({', '.join(POLICIES)})")
        if self.settings.training not in ("train", "full"):
            raise TaskError(f"env.training={self.settings.training}: no such set; use env.training=train or full")
        self._check_clone()
        return {"policy": POLICIES[task], "training": self.settings.training, "source": source(self._clone)}

    def max_turns(self, task: str) -> int:
        return 50

    def seeds(self, params: Params, split: str) -> Sequence[int]:
        splits = json.loads((self._clone / SPLITS).read_text())
        place = {task["id"]: number for number, task in enumerate(tasks(self._clone))}
        if split in ("test", "test_paper"):
            return [place[name] for name in splits["test"]]
        names = [name for name in splits[params["training"]] if name not in splits["test"]]
        digits = SPLIT_DIGITS.get(split, "")
        return [place[name] for number, name in enumerate(names) if str(number)[-1] in digits]

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        from turngrid.envs.tau2.env import made

        return made(self._clone, params, tasks(self._clone)[seed], folder)

    def env(self, *, legal: bool = False, expert: bool = False) -> TextEnv:
        from turngrid.envs.tau2.env import Tau2Env

        return Tau2Env(self._clone, legal=legal)

    @property
    def _clone(self) -> Path:
        return Path(self.settings.data_dir or "").expanduser().absolute()

    def _check_clone(self) -> None:
        """Check the clone and the packages that tau2 imports.

        Raises:
            TaskError: a file or a package is missing.
        """
        chosen = self.settings.data_dir
        if not chosen:
            raise TaskError(f"env.data_dir=null: env=tau2 needs a clone: {CLONE}; use env.data_dir=tau2-bench")
        if missing := next((name for name in NEEDED if not (self._clone / name).is_file()), ""):
            raise TaskError(f"env.data_dir={chosen}: no clone of tau2-bench, it has no {missing}; {CLONE}")
        if lacking := [package for module, package in PACKAGES.items() if find_spec(module) is None]:
            raise TaskError(f"env=tau2 needs packages that tau2 imports: pip install {' '.join(lacking)}")
