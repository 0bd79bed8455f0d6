"""tw-simple: TextWorld's fixed six-room house. Leave the locked bedroom, find the food, put it on the stove.

How densely it scores is a setting of the game's generation. One seed gives the same house, goal and expert plan under
the three densities (tested); only the points differ: 1 for sparse, 3-4 balanced, 7-10 dense.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from envs.environment import GameRecord, Params
from envs.textworld.games import TextWorldGames
from envs.types import TaskError

TASK = "tw-simple"


class TwSimple(TextWorldGames):
    """Detailed goals, the training distribution of foods."""

    name = "tw_simple"
    rewards = ("sparse", "balanced", "dense")
    examples = (TASK,)

    def parse_task(self, task: str) -> dict[str, Any]:
        if str(task).replace("_", "-") != TASK:
            raise TaskError(f"unknown task {task!r} of tw_simple; did you mean {TASK}?")
        return {"rewards": "sparse", "goal": "detailed", "test": False}

    def max_turns(self, task: str) -> int:
        self.parse_task(task)
        return 24

    def with_reward(self, params: Params, reward: str) -> dict[str, Any]:
        """A reward of somebody else's reads the densest scores."""
        return {**params, "rewards": reward if reward in TwSimple.rewards else "dense"}

    def scores_only_at_end(self, params: Params) -> bool:
        return params["rewards"] == "sparse"

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        from textworld.challenges import CHALLENGES

        from envs.textworld import making

        opts = making.options(seed)
        with making.shared_knowledge():
            game = CHALLENGES[TASK][1](settings=dict(params), options=opts)
        return making.finish(game, folder)
