"""TextCraft's commands over recipes made here: ``env=crafting``.

An item without a recipe is raw, and ``get`` gives any number of it. The depth of a raw item is 0;
that of another is one more than the largest among its ingredients.
"""

import functools
import hashlib
import random
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turngrid.envs.environment import Environment, GameRecord, Params, PromptStyle, Rejected
from turngrid.envs.functions import CommandFunction
from turngrid.envs.text_env import RawStep, TextEnv, accepted_file
from turngrid.envs.types import InvalidAction, Observation, TaskRef

LONGEST = 5  # actions of an expert plan, at most, for each level of depth
_LAYER = 3  # items of each depth, all with a recipe; those that the goal does not need distract
_RAW = (
    *("oak log", "birch log", "pine log", "clay", "sand", "chalk", "flint", "quartz", "coal", "copper ore"),
    *("tin ore", "iron ore", "wool", "flax", "reed", "moss", "resin", "hide", "bone", "feather"),
)
_COLOURS = ("red", "blue", "green", "white", "black", "grey")
_NOUNS = (
    *("plank", "rope", "cloth", "brick", "tile", "gear", "frame", "handle", "blade", "bowl"),
    *("lamp", "bell", "door", "wheel", "chest", "ladder"),
)
_COUNTED = re.compile(r"([0-9]+) (.+)")
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


@dataclass(frozen=True)
class Recipe:
    """``makes`` pieces of an item, from ``needs`` pieces of each ingredient."""

    item: str
    makes: int
    needs: dict[str, int]

    def __str__(self) -> str:
        needs = ", ".join(f"{count} {part}" for part, count in self.needs.items())
        return f"craft {self.makes} {self.item} using {needs}"


@dataclass(frozen=True)
class Book:
    """A game: an item to craft, and the recipes by item, in the order in which they are shown."""

    goal: str
    recipes: dict[str, Recipe]

    def __str__(self) -> str:
        return "\n".join([f"craft {self.goal}.", "Crafting commands:", *map(str, self.recipes.values())])

    @functools.cached_property
    def raw(self) -> tuple[str, ...]:
        parts = (part for recipe in self.recipes.values() for part in recipe.needs)
        return tuple(dict.fromkeys(part for part in parts if part not in self.recipes))

    @functools.cached_property
    def _deepest_first(self) -> tuple[str, ...]:
        return (*sorted(self.recipes, key=self.depth, reverse=True), *self.raw)

    def depth(self, item: str) -> int:
        return 1 + max(map(self.depth, self.recipes[item].needs)) if item in self.recipes else 0

    def missing(self, have: Counter[str]) -> dict[str, int]:
        """Return the items that the goal still needs, itself first, and how many of each.

        No plan needs fewer, since fewer crafts of an item never use more of its ingredients.
        """
        need, missing = Counter({self.goal: 1}), {}
        for item in self._deepest_first:
            if (short := need[item] - have[item]) > 0:
                missing[item] = short
                for part, count in self.recipes[item].needs.items() if item in self.recipes else ():
                    need[part] += count * self._crafts(item, short)
        return missing

    def plan(self, have: Counter[str]) -> tuple[str, ...]:
        """Return a shortest plan; () if ``have`` contains the goal."""
        missing = self.missing(have)
        gets = (f"get {short} {item}" for item, short in missing.items() if item not in self.recipes)
        crafted = [(item, short) for item, short in missing.items() if item in self.recipes]
        crafts = (str(self.recipes[item]) for item, short in crafted[::-1] for _ in range(self._crafts(item, short)))
        return (*gets, *crafts)

    def _crafts(self, item: str, short: int) -> int:
        return -(-short // self.recipes[item].makes)

    @property
    def same(self) -> str:
        """A hash that ignores names, order, and recipes that the goal does not need.

        An ingredient of two recipes counts as two items, so games that differ only there are equal.
        """
        return hashlib.sha256(self._shape(self.goal).encode()).hexdigest()

    def _shape(self, item: str) -> str:
        if item not in self.recipes:
            return "raw"
        parts = sorted(f"{count} {self._shape(part)}" for part, count in self.recipes[item].needs.items())
        return f"({self.recipes[item].makes} of {', '.join(parts)})"


def counted(text: str) -> dict[str, int]:
    """Return the items of ``2 oak log, 1 hide`` with their counts; {} if it has another form."""
    matches = [match for part in text.split(",") if (match := _COUNTED.fullmatch(part.strip()))]
    counts = {match[2]: int(match[1]) for match in matches}
    return counts if len(counts) == text.count(",") + 1 else {}


def read(text: str) -> Book:
    """Return the game that ``str`` wrote."""
    goal, _, *lines = text.split("\n")
    recipes = {}
    for makes, item, needs in (match.groups() for match in map(_CRAFT.fullmatch, lines) if match):
        recipes[item] = Recipe(item, int(makes), counted(needs))
    return Book(goal.removeprefix("craft ").removesuffix("."), recipes)


def make(depth: int, seed: int) -> Book:
    """Make a seed's game, whose goal has this depth.

    Raises:
        Rejected: its plan is too long.
    """
    draw = random.Random(f"crafting {depth} {seed}")
    # 3 * depth names over 2 * depth nouns: some items are namesakes (red rope, blue rope)
    nouns = draw.sample(_NOUNS, 2 * depth)
    names = draw.sample([f"{colour} {noun}" for colour in _COLOURS for noun in nouns], _LAYER * depth)
    raw = draw.sample(_RAW, depth + 2)
    layers = [raw, *(names[start : start + _LAYER] for start in range(0, len(names), _LAYER))]
    recipes = [_recipe(item, layers[:level], draw) for level in range(1, depth + 1) for item in layers[level]]
    draw.shuffle(recipes)
    book = Book(layers[depth][0], {recipe.item: recipe for recipe in recipes})
    if len(book.plan(Counter())) > LONGEST * depth:
        raise Rejected(f"a plan of more than {LONGEST * depth} actions")
    return book


def _recipe(item: str, below: list[list[str]], draw: random.Random) -> Recipe:
    """Draw one to three ingredients, one or more of the last layer."""
    first = draw.choice(below[-1])
    others = draw.sample([part for layer in below for part in layer if part != first], draw.randint(0, 2))
    parts = draw.sample([first, *others], len(others) + 1)
    needs = {part: draw.randint(1, 4 if part in below[0] else 2) for part in parts}
    return Recipe(item, draw.choice((1, 1, 2, 4)), needs)


class CraftingEnv(TextEnv):
    """One game at a time; the score counts the needed items that are no longer missing."""

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
