"""TextCraft's commands over recipes made here: ``env=crafting``."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

from turngrid.envs.crafting.games import counted, make, read
from turngrid.envs.environment import Environment, GameRecord, Params, PromptStyle
from turngrid.envs.functions import CommandFunction
from turngrid.envs.text_env import RawStep, TextEnv, accepted_file
from turngrid.envs.types import InvalidAction, Observation, TaskRef

_GET = re.compile(r"get ([1-9][0-9]*) (.+)")
_CRAFT = re.compile(r"craft (?:([0-9]+) )?(.+?) using (.+)")
DEPTHS = (2, 3, 4)
_TURNS = 10  # for each level of depth; twice the longest expert plan
_FUNCTIONS = (
    CommandFunction("get", "an item that no command crafts", pattern="get {count} {item}"),
    CommandFunction(
        "craft", 'by a crafting command; ingredients are "2 A, 1 B"', pattern="craft {count} {item} using {ingredients}"
    ),
    CommandFunction("inventory", "the items that you have", pattern="inventory"),
)


class CraftingEnv(TextEnv):
    """One game at a time; a point for each item of the plan of which no more is needed."""

    ends = " ."

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        self._book = read(accepted_file(task).read_text())
        self._have: Counter[str] = Counter()
        self._most = len(self._book.missing(self._have))
        return self.observe_message(self._inventory())

    def step_game(self, command: str) -> RawStep:
        if command == "inventory":
            message = self._inventory()
        elif got := _GET.fullmatch(command):
            message = self._get(int(got[1]), got[2])
        elif crafted := _CRAFT.fullmatch(command):
            message = self._craft(*crafted.groups())
        else:
            raise InvalidAction(f"Could not execute {command}")
        score = self._most - len(self._book.missing(self._have))
        return RawStep(self.observe_message(message), score, won=self._book.goal in self._have)

    def _get(self, count: int, item: str) -> str:
        if item not in self._book.raw:
            raise InvalidAction(f"Could not find {item}")
        self._have = self._have + Counter({item: count})
        return f"Got {count} {item}"

    def _craft(self, count: str | None, item: str, ingredients: str) -> str:
        given = counted(ingredients)
        if not given:
            raise InvalidAction(f"Wrong item format: {ingredients}")
        recipe = self._book.recipes.get(item)
        if not recipe or int(count or recipe.makes) != recipe.makes or given != recipe.needs:
            raise InvalidAction(f"Could not find a valid recipe for {item}")
        if not Counter(recipe.needs) <= self._have:
            raise InvalidAction(f"Could not find enough items to craft {item}")
        self._have = self._have - Counter(recipe.needs) + Counter({item: recipe.makes})
        return f"Crafted {recipe.makes} {item}"

    def _inventory(self) -> str:
        items = " ".join(f"[{item}] ({count})" for item, count in self._have.items())
        return f"Inventory: {items or 'You are not carrying anything.'}"

    def expert_actions(self) -> tuple[str, ...]:
        return self._book.plan(self._have)

    def legal_actions(self) -> tuple[str, ...]:
        """Return ``inventory``, the crafts possible now, and ``get`` with the counts of recipes."""
        recipes = self._book.recipes.values()
        crafts = [str(recipe) for recipe in recipes if Counter(recipe.needs) <= self._have]
        gets = [f"get {n} {part}" for recipe in recipes for part, n in recipe.needs.items() if part in self._book.raw]
        return ("inventory", *crafts, *dict.fromkeys(gets))


class Crafting(Environment):
    """Tasks: ``dDEPTH``, the most crafts on a way from a raw item to the goal."""

    name = "crafting"
    Env = CraftingEnv
    rewards = ("sparse", "dense")
    prompt = PromptStyle(
        "You are crafting an item. You can get every item that no crafting command makes.",
        "Answer with one action: get COUNT ITEM, a crafting command word for word, or inventory.",
        _FUNCTIONS,
    )
    examples = tuple(f"d{depth}" for depth in DEPTHS)

    def parse_task(self, task: str) -> dict[str, Any]:
        self.check_task(task)
        return {"depth": int(task[1:])}

    def max_turns(self, task: str) -> int:
        return _TURNS * self.parse_task(task)["depth"]

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        book = make(params["depth"], seed)
        (folder / "recipes.txt").write_text(str(book))
        nothing: Counter[str] = Counter()
        plan, items = book.plan(nothing), book.missing(nothing)
        return GameRecord("recipes.txt", "", str(book), plan, book.same, len(items))
