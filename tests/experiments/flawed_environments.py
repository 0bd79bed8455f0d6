"""Press the right letters in order: a healthy environment, and one for each flaw."""

import random
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE, Popen
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
    Game: ClassVar[type[LettersEnv]] = LettersEnv

    def parse_task(self, task: str) -> dict[str, int]:
        return {}

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        return GameRecord(goal="Press all letters.", expert_plan=plan(seed), max_score=8.0)

    def env(self, *, legal: bool = False, expert: bool = False) -> TextEnv:
        return self.Game()


class Remembering(Letters):
    class Game(LettersEnv):
        episodes = 0

        def points(self) -> float:
            """Only off the expert's path it remembers."""
            return self.right + 0.01 * self.episodes * (self.pressed > self.right)

        def reset_game(self, task: TaskRef, seed: int) -> Observation:
            self.episodes += 1
            return super().reset_game(task, seed)


class Talking(Letters):
    class Game(LettersEnv):
        def observe_message(self, message: str) -> Observation:
            return super().observe_message(f"{message} {random.random()}")


class Paying(Letters):
    class Game(LettersEnv):
        def points(self) -> float:
            return float(self.pressed)


class Telling(Letters):
    class Game(LettersEnv):
        def observe_message(self, message: str) -> Observation:
            return super().observe_message(f"{message} Now {', '.join(plan(self.task.seed))}!")


class Growing(Letters):
    class Game(LettersEnv):
        kept: ClassVar[list[Popen[bytes]]] = []

        def reset_game(self, task: TaskRef, seed: int) -> Observation:
            self.kept.append(Popen(["cat"], stdin=PIPE))  # ends with its worker
            return super().reset_game(task, seed)


class Doubled(Letters):
    """Each seed is the same game under another fingerprint."""

    class Game(LettersEnv):
        def reset_game(self, task: TaskRef, seed: int) -> Observation:
            return super().reset_game(replace(task, seed=0), seed)

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        return GameRecord(goal="Press all letters.", expert_plan=plan(0), fingerprint=str(seed), max_score=8.0)


class Easy(Letters):
    class Game(LettersEnv):
        def step_game(self, command: str) -> RawStep:
            return RawStep(self.observe_message(""), score=1.0, won=True)

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        return GameRecord(goal="Press a letter.")


class Raffle(Easy):
    """A match whose first action ends it, with scores by lot; a long one breaks it."""

    class Game(LettersEnv):
        def observe_message(self, message: str) -> Observation:
            return replace(super().observe_message(message), seat="0")

        def step_game(self, command: str) -> RawStep:
            score = {f"{command[:99]} [/x]": random.random()}[f"{command} [/x]"]
            return RawStep(self.observe_message(""), 0.0, terminated=True, scores={"0": score, "1": -score})


class Hopeless(Easy):
    class Game(LettersEnv):
        def legal(self) -> tuple[str, ...]:
            return ("press e",)


class Silent(Easy):
    class Game(LettersEnv):
        def legal(self) -> tuple[str, ...]:
            return ()


class Hourly:  # a reward that pays for each action
    def turn_rewards(self, turns, won, max_score):
        return [0.3 * turn.valid for turn in turns]
