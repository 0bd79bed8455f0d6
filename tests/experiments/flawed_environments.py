"""Press the right letters in order: a healthy environment, and one for each flaw."""

import random
from pathlib import Path
from typing import ClassVar

from turngrid.envs.environment import Environment, GameRecord, Params, PromptStyle
from turngrid.envs.text_env import RawStep, TextEnv
from turngrid.envs.types import Observation, TaskRef

LETTERS = "abcd"


def plan(seed: int) -> tuple[str, ...]:
    return tuple(f"press {letter}" for letter in random.Random(seed).choices(LETTERS, k=8))


class LettersEnv(TextEnv):
    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        self.task, self.right, self.pressed = task, 0, 0
        return self.observe_message(f"Keyboard {task.seed}.")

    def step_game(self, command: str) -> RawStep:
        valid = command in self.legal()
        self.pressed += valid
        self.right += command == plan(self.task.seed)[self.right]
        return RawStep(self.observe_message(""), score=self.points(), won=self.right == 8, valid=valid)

    def points(self) -> float:
        return float(self.right)

    def legal(self) -> tuple[str, ...]:
        return tuple(f"press {letter}" for letter in LETTERS)

    def observe_message(self, message: str) -> Observation:
        return Observation(f"{message}\n{self.right} were right.", legal=self.legal())


class Letters(Environment):
    name = "letters"
    prompt = PromptStyle("You press letters.", 'Answer with one action, such as "press a".')
    rewards = ("sparse", "dense")
    of_game: ClassVar[type[LettersEnv]] = LettersEnv

    def parse_task(self, task: str) -> dict[str, int]:
        return {}

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        return GameRecord(goal="Press all letters.", expert_plan=plan(seed), max_score=8.0)

    def env(self, *, legal: bool = False, expert: bool = False) -> TextEnv:
        return self.of_game()


class RememberingEnv(LettersEnv):
    episodes = 0

    def points(self) -> float:
        return self.right + 0.01 * self.episodes

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        self.episodes += 1
        return super().reset_game(task, seed)


class TalkingEnv(LettersEnv):
    def observe_message(self, message: str) -> Observation:
        return super().observe_message(f"{message} {random.random()}")


class PayingEnv(LettersEnv):
    def points(self) -> float:
        return float(self.pressed)


class TellingEnv(LettersEnv):
    def observe_message(self, message: str) -> Observation:
        return super().observe_message(f"{message} Now {', '.join(plan(self.task.seed))}!")


class GrowingEnv(LettersEnv):
    kept: ClassVar[list[bytes]] = []

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        self.kept.append(b"x" * 1_000_000)
        return super().reset_game(task, seed)


class FragileEnv(LettersEnv):
    def step_game(self, command: str) -> RawStep:
        return super().step_game({f"press {letter}": command for letter in LETTERS}[command])


class EasyEnv(LettersEnv):
    def step_game(self, command: str) -> RawStep:
        return RawStep(self.observe_message(""), score=1.0, won=True)


class Remembering(Letters):
    of_game = RememberingEnv


class Talking(Letters):
    of_game = TalkingEnv


class Paying(Letters):
    of_game = PayingEnv


class Telling(Letters):
    of_game = TellingEnv


class Growing(Letters):
    of_game = GrowingEnv


class Fragile(Letters):
    of_game = FragileEnv


class Doubled(Letters):
    """Each seed is the same game under another fingerprint."""

    class Game(LettersEnv):
        def reset_game(self, task: TaskRef, seed: int) -> Observation:
            super().reset_game(task, seed)
            return self.observe_message("A keyboard.")

        def step_game(self, command: str) -> RawStep:
            self.right += command == plan(0)[self.right]
            won = self.right == 8
            return RawStep(self.observe_message(""), score=self.points(), won=won, valid=command in self.legal())

    of_game = Game

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        return GameRecord(goal="Press all letters.", expert_plan=plan(0), fingerprint=str(seed), max_score=8.0)


class Easy(Letters):
    of_game = EasyEnv

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        return GameRecord(goal="Press a letter.")
