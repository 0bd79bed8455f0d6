"""Play a gymnasium game in words."""

import json

from turngrid.envs.gym.games import is_certain, is_win, known, make, shortest_plan, words
from turngrid.envs.text_env import RawStep, TextEnv, accepted_file
from turngrid.envs.types import Observation, TaskRef


class GymEnv(TextEnv):
    """One game at a time; the game's seed determines its start and its draws."""

    def __init__(self, *, legal: bool = False, expert: bool = False) -> None:
        self._legal, self._expert = legal, expert

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        self._rules = json.loads(accepted_file(task).read_text())
        self._described, self._goal, self._return = known(self._rules["id"]), task.goal, 0.0
        self._game = make(self._rules["id"], self._rules["kwargs"])
        self._state, _ = self._game.reset(seed=self._rules["seed"])
        self._words = words(self._game, self._described)
        return self.observe_message("")

    def clean_action(self, action: str) -> str:
        return super().clean_action(action).lower()

    def step_game(self, command: str) -> RawStep:
        if command not in self._words:
            return RawStep(self.observe_message(f"There is no action {command!r}."), self._return, valid=False)
        action = int(self._game.action_space.start) + self._words.index(command)
        self._state, reward, over, cut, _ = self._game.step(action)
        self._return += float(reward)
        won = over and is_win(self._rules, self._return)
        return RawStep(
            self.observe_message(""),
            self._return,
            won=won,
            lost=over and not won,
            terminated=over,
            truncated=cut and not over,
        )

    def observe_message(self, message: str) -> Observation:
        shown = self._described.show(self._game.unwrapped, self._state)
        asked = self._expert and is_certain(self._game)
        plan = shortest_plan(self._game, self._rules, self._return) if asked else None
        return Observation(
            text=f"{message}\n{shown}" if message else shown,
            goal=self._goal,
            legal=self._words if self._legal else (),
            expert=tuple(self._words[action] for action in plan or ()),
        )
