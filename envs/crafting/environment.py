"""TextCraft's commands over recipes made here: ``env=crafting``."""

from collections import Counter
from pathlib import Path
from typing import Any

from turngrid.envs.environment import Environment, GameRecord, Params, PromptStyle
from turngrid.envs.functions import CommandFunction
from turngrid.envs.text_env import TextEnv
from turngrid.envs.types import TaskError
from turngrid.envs.utils.names import nearest

DEPTHS = (2, 3, 4)
_TURNS = 10  # for each level of depth; twice the longest expert plan
_FUNCTIONS = (
    CommandFunction("get", "an item that no command crafts", pattern="get {count} {item}"),
    CommandFunction(
        "craft", 'by a crafting command; ingredients are "2 A, 1 B"', pattern="craft {count} {item} using {ingredients}"
    ),
    CommandFunction("inventory", "the items that you have", pattern="inventory"),
)


class Crafting(Environment):
    """Tasks: ``dDEPTH``, the most crafts on a way from a raw item to the goal."""

    name = "crafting"
    rewards = ("sparse", "dense")
    prompt = PromptStyle(
        "You are crafting an item. You can get every item that no crafting command makes.",
        "Answer with one action: get COUNT ITEM, a crafting command word for word, or inventory.",
        _FUNCTIONS,
    )
    examples = tuple(f"d{depth}" for depth in DEPTHS)

    def parse_task(self, task: str) -> dict[str, Any]:
        if task not in self.examples:
            raise TaskError(f"unknown task {task!r} of crafting; use {nearest(str(task), self.examples)}")
        return {"depth": int(task[1:])}

    def max_turns(self, task: str) -> int:
        return _TURNS * self.parse_task(task)["depth"]

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        from turngrid.envs.crafting.games import make

        book = make(params["depth"], seed)
        (folder / "recipes.txt").write_text(str(book))
        nothing: Counter[str] = Counter()
        plan, items = book.plan(nothing), book.missing(nothing)
        return GameRecord("recipes.txt", "", str(book), plan, book.same, len(items))

    def env(self, *, legal: bool = False, expert: bool = False) -> TextEnv:
        from turngrid.envs.crafting.env import CraftingEnv

        return CraftingEnv(legal=legal, expert=expert)
