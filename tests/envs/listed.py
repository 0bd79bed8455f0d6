"""An environment that lists its games, has settings, and grades what was not finished; real worker
processes play it."""

from dataclasses import dataclass, field
from pathlib import Path

from turngrid.envs.environment import Environment, GameRecord, PromptStyle, Rejected
from turngrid.envs.text_env import RawStep, TextEnv
from turngrid.envs.types import Observation, TaskRef


@dataclass(frozen=True)
class ListedSettings:
    numbers: list[int] = field(default_factory=list)
    bonus: int = 0


class CountEnv(TextEnv):
    """``add`` counts up; reaching the goal is graded only at the end."""

    def __init__(self, bonus: int) -> None:
        self._bonus = bonus

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        self.count, self.goal = self._bonus, int(Path(task.game_file).read_text())
        return Observation("0")

    def step_game(self, command: str) -> RawStep:
        self.count += 1
        return RawStep(Observation(str(self.count)), 0.0)

    def finish_game(self) -> RawStep:
        won = self.count >= self.goal
        return RawStep(Observation("graded"), float(won), won=won, terminated=True, info={"count": self.count})


class Listed(Environment):
    name = "listed"
    prompt = PromptStyle("You count.", 'Answer with "add".')
    version = "1"
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
        file = folder / "game.txt"
        file.write_text(str(seed))
        return GameRecord(file.name, self.game_sha256(file), "count", (), f"{seed}", 1.0)

    def env(self, *, legal=False, expert=False):
        return CountEnv(self.settings.bonus)
