"""Games that cost nothing: say ``add`` as often as the task says. ``drop`` loses the game.

A game is its seed modulo ``KINDS``, whatever the task: splits and tasks do share games.
"""

from pathlib import Path

from turngrid.envs.environment import Environment, GameRecord, PromptStyle
from turngrid.envs.functions import CommandFunction
from turngrid.envs.text_env import RawStep, TextEnv
from turngrid.envs.types import Observation, TaskError, TaskRef

KINDS = 50
FAR = 10  # the first kind of the games of count-3


class CountingEnv(TextEnv):
    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        self.left = int(Path(task.game_file).read_text().split()[1])
        return self.observe_message("Begin.")

    def step_game(self, command: str) -> RawStep:
        self.left -= command == "add"
        won, lost, valid = self.left == 0, command == "drop", command in ("add", "drop", "wait")
        return RawStep(self.observe_message("."), float(won), won=won, lost=lost, valid=valid)

    def observe_message(self, message: str) -> Observation:
        return Observation(f"{message} {self.left} left.", legal=("add", "drop", "wait"))


class Counting(Environment):
    name = "counting"
    version = "1"
    rewards = ("sparse",)
    prompt = PromptStyle("You count.", 'Answer with "add".', (CommandFunction("add", "one more", pattern="add"),))

    def parse_task(self, task: str) -> dict[str, int]:
        name, _, steps = task.partition("-")
        if name != "count" or not steps.isdigit():
            raise TaskError(f"unknown task {task!r} of counting; use count-2")
        return {"steps": int(steps)}

    def optimal_turns(self, params):
        return params["steps"]

    def max_turns(self, task: str) -> int:
        return 3 * self.parse_task(task)["steps"]

    def make_game(self, params, seed: int, folder: Path) -> GameRecord:
        file = folder / "left.txt"
        file.write_text(f"{seed} {params['steps']}")
        kind = (seed + FAR * (params["steps"] == 3)) % KINDS
        steps = ("add",) * params["steps"]
        return GameRecord(file.name, goal="Count.", expert_plan=steps, fingerprint=str(kind))

    def game_sha256(self, game_file: Path) -> str:
        return game_file.read_text()

    def env(self, *, legal: bool = False, expert: bool = False) -> TextEnv:
        return CountingEnv()


class Planless(Counting):
    """Every seed is a game, and none has an expert."""

    make_game = Environment.make_game
