"""An environment small enough to be wrong in every way on command; real worker processes play it.

Its games are text files with a number: ``add`` counts up to it and wins. Other commands hang, die,
shout or fail. Scores and wins are numpy's, as games of other packages have them.
"""

import os
import sys
import time
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np

from turngrid.envs.environment import Environment, GameRecord, PromptStyle, Rejected
from turngrid.envs.functions import CommandFunction
from turngrid.envs.text_env import RawStep, TextEnv
from turngrid.envs.types import EnvError, Observation, TaskError, TaskRef

CODES = (*range(0x20), *range(0x7F, 0xA0), 0x202E, 0x2066)
NOISE = f"before {''.join(map(chr, CODES))} \x1b[2J\x1b]0;title\x07\x9b31m after"
WAIT = CommandFunction("wait", "wait", pattern="wait")
HALVES = "\ud800 \udfff"  # which no JSON can carry


class FragileEnv(TextEnv):
    banned_verbs = frozenset({"quit"})

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        self.count, self.goal, self.task = 0, int(Path(task.game_file).read_text()), task
        return Observation(text=f"0 of {self.goal}", goal=task.goal)

    def step_game(self, command: str) -> RawStep:
        if command == "sleep":
            time.sleep(600)
        deaths = Path(f"{self.task.game_file}.deaths")
        if command == "die" or (command == "die once" and not deaths.exists()):
            deaths.write_text(f"{deaths.read_text() if deaths.exists() else ''}x")
            os._exit(3)
        if command == "shout":
            print('{"ok": {}}', flush=True)
            os.write(1, b'{"ok": {}}\n')
            sys.stdin.read()
        if command == "fail":
            raise EnvError("the world failed")
        if command == "scream":
            raise EnvError(NOISE + HALVES)
        if command == "crash":
            Fraction(self.count, 0)
        if command == "wait":
            time.sleep(0.2)
        self.count += command.startswith("add")
        more, info = "!" * (2**22 * (command == "talk")), {"odd": object()} if command == "hide" else {}
        more += (NOISE + HALVES) * command.startswith("noise")
        seen = Observation(text=f"{self.count} of {self.goal}{more}", goal=f"{self.task.goal}{more}")
        score, won = np.float64(self.count), np.bool_(self.count >= self.goal)
        return RawStep(seen, score, won=won, truncated=command == "cut", info=info)

    def finish_game(self) -> RawStep:
        won = self.count >= self.goal - 1
        return RawStep(Observation("graded"), self.count, won=won, terminated=True, info={"count": self.count})


class Fragile(Environment):
    name = "fragile"
    rewards = ("sparse", "dense")
    prompt = PromptStyle("You count.", 'Answer with a phrase such as "add one".', (WAIT,))
    version = "1"
    turns = 10
    Env = FragileEnv

    def parse_task(self, task):
        if task not in ("slow", "fast", "never", "few", "crash"):
            raise TaskError(f"unknown task {task!r}")
        return {"kind": task}

    def make_game(self, params, seed, folder):
        """Every third seed is refused; ``few`` has three different games in all."""
        if params["kind"] == "never" or seed % 3 == 0:
            raise Rejected("divisible by three" if seed % 3 == 0 else "never")
        if params["kind"] == "crash":
            os._exit(3)
        (folder / "game.txt").write_text("3")
        if params["kind"] == "slow":
            time.sleep(0.3)
        (folder / "late.txt").write_text(str(seed))
        same = seed % 4 if params["kind"] == "few" else seed
        return GameRecord("game.txt", "", f"count to 3 ({seed}) {NOISE}", ("add",) * 3, str(same), 3.0)


@dataclass(frozen=True)
class ListedSettings:
    numbers: list[int] = field(default_factory=list)


class Listed(Fragile):
    """Lists its games, has settings, and grades what was not finished."""

    name = "listed"
    Settings = ListedSettings
    grades_unfinished = True

    def parse_task(self, task):
        return {}

    def for_split(self, params, split):
        return {**params, "split": split}

    def seeds(self, params, split):
        return self.settings.numbers

    def make_game(self, params, seed, folder):
        """A game is its number; a negative one is broken."""
        if seed < 0:
            raise Rejected("a broken file")
        (folder / "game.txt").write_text(str(seed))
        return GameRecord("game.txt", "", "count", (), str(seed))
