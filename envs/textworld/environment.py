"""TextWorld's games: custom ones (``env=textworld``), and a fixed house (``env=tw_simple``).

TextWorld takes a second to import, so only the code that makes or plays a game imports it.
"""

import re
from pathlib import Path
from typing import Any

from turngrid.envs.environment import Environment, GameRecord, Params, PromptStyle, Rejected
from turngrid.envs.textworld import interpreter
from turngrid.envs.textworld.env import TextWorldEnv

_TASK = re.compile(r"w([1-9]\d?)-o([1-9]\d?)-q([1-9]\d?)")
_PAPER = ("w2-o3-q4", "w4-o3-q4", "w2-o6-q4", "w4-o6-q8", "w8-o12-q16")
_SIMPLE = "tw-simple"


class TextWorldGames(Environment):
    """Base of both environments."""

    prompt = PromptStyle(
        role="You are playing a text adventure game.",
        action_form='Answer with one action, a verb phrase such as "open box".',
    )
    lists_actions = True
    Env = TextWorldEnv
    package = "textworld"
    recipe = 2

    def game_sha256(self, game_file: Path) -> str:
        return interpreter.game_sha256(game_file)


class TextWorldCustom(TextWorldGames):
    """Custom games ``w{rooms}-o{objects}-q{quest length}``: one quest, one point, at its end.

    The catalogue refuses sizes for which it finds no game.
    """

    name = "textworld"
    rewards = ("sparse", "dense")
    examples = _PAPER

    def parse_task(self, task: str) -> dict[str, Any]:
        match = _TASK.fullmatch(str(task))
        if not match:
            raise self.unknown(task)
        rooms, objects, quest = map(int, match.groups())
        return {"rooms": rooms, "objects": objects, "quest": quest}

    def max_turns(self, task: str) -> int:
        """Return the study's limits, 12 for quests of up to 4 steps, else 24, or more over 16."""
        quest = self.parse_task(task)["quest"]
        return 12 if quest <= 4 else max(24, quest + quest // 2)

    def optimal_turns(self, params: Params) -> int:
        return params["quest"]

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        from turngrid.envs.textworld import games

        options = games.options(seed)
        options.kb = games.knowledge_base()
        options.nb_rooms, options.nb_objects = params["rooms"], params["objects"]
        options.quest_length = params["quest"]
        options.chaining.max_breadth = 1  # one quest: the default breadth gives some games two
        game = games.generate(options)
        steps = len(game.metadata.get("walkthrough") or ())
        if steps != params["quest"]:  # checked before compiling, which takes most of the time
            raise Rejected(f"the expert plan has {steps} steps")
        return games.finish(game, folder)


class TwSimple(TextWorldGames):
    """TextWorld's fixed six-room house: leave the locked bedroom, put the food on the stove.

    A seed gives the same house, goal and expert plan at each density of the score (tested). Only
    the number of points differs: 1 for sparse, 3-4 for balanced, 7-10 for dense.
    """

    name = "tw_simple"
    rewards = ("sparse", "balanced", "dense")
    examples = (_SIMPLE,)

    def parse_task(self, task: str) -> dict[str, Any]:
        if str(task).replace("_", "-") != _SIMPLE:
            raise self.unknown(task)
        return {"rewards": "sparse", "goal": "detailed", "test": False}

    def with_reward(self, params: Params, reward: str) -> dict[str, Any]:
        """Choose the density of the score; a reward of another package gets the densest."""
        return {**params, "rewards": reward if reward in TwSimple.rewards else "dense"}

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        from turngrid.envs.textworld import games

        return games.finish(games.challenge(_SIMPLE, dict(params), seed), folder)
