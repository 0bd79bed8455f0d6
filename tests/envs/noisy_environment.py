"""An environment that says every character that nobody wants in a prompt or a terminal, wherever an
environment says something."""

from pathlib import Path

from turngrid.envs.environment import Environment, GameRecord, PromptStyle
from turngrid.envs.text_env import RawStep, TextEnv
from turngrid.envs.types import EnvError, Observation, TaskRef

CODES = (*range(0x20), *range(0x7F, 0xA0), 0x202E, 0x2066)
NOISE = f"before {''.join(map(chr, CODES))} \x1b[2J\x1b]0;title\x07\x9b31m after"
HALVES = "\ud800 \udfff"  # which no JSON can carry


class NoisyEnv(TextEnv):
    banned_verbs = frozenset({"quit"})

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        return self.observe_message("")

    def step_game(self, command: str = "") -> RawStep:
        if command == "fail":
            raise EnvError(NOISE + HALVES)
        return RawStep(self.observe_message(""), 0.0)

    finish_game = step_game

    def observe_message(self, message: str) -> Observation:
        return Observation(text=NOISE + HALVES, goal=NOISE + HALVES)


class Noisy(Environment):
    name = "noisy"
    version = "1"
    Env = NoisyEnv
    prompt = PromptStyle("You listen.", "Say anything.")

    def parse_task(self, task: str) -> dict[str, str]:
        return {"task": task}

    def make_game(self, params, seed: int, folder: Path) -> GameRecord:
        (folder / "game.txt").write_text(str(seed))
        return GameRecord("game.txt", "the same", NOISE, (), str(seed), max_score=1)

    def game_sha256(self, game_file: Path) -> str:
        return "the same"
