"""TextWorld with one bad game: of a group of four samples one fails, also at each retry."""

import os
from pathlib import Path

from counting_environment import Counting, CountingEnv

from turngrid.envs.text_env import RawStep, TextEnv
from turngrid.envs.textworld.environment import TextWorldCustom, TextWorldEnv
from turngrid.envs.types import Observation, TaskRef

FOLDER = "TURNGRID_TEST_FLAKY"
GOOD = (2, 3, 4)


class FlakyEnv(TextWorldEnv):
    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        folder = Path(os.environ[FOLDER])
        victim, count = folder / "victim", folder / "count"
        if not victim.exists():
            victim.write_text(str(seed))
        if victim.read_text() == str(seed):
            resets = int(count.read_text()) + 1 if count.exists() else 1
            count.write_text(str(resets))
            if resets not in GOOD:
                raise KeyError("a bad game")
        return super().reset_game(task, seed)


class Flaky(TextWorldCustom):
    """Shares its games with ``textworld``."""

    def env(self, *, legal: bool = False, expert: bool = False) -> TextEnv:
        return FlakyEnv(legal=legal, expert=expert)


class BrokenEnv(CountingEnv):
    def step_game(self, command: str) -> RawStep:
        return super().step_game({}[command])


class Broken(Counting):
    """Fails at every step."""

    def env(self, *, legal: bool = False, expert: bool = False) -> TextEnv:
        return BrokenEnv()
