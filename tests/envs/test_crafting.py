"""Crafting games: made from seeds, planned in the fewest actions, answered as by TextCraft."""

import contextlib
import heapq
import itertools
import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

from turngrid.envs.crafting.games import Book, Recipe, make, read
from turngrid.envs.environment import Rejected
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.registry import make_environment

NOTHING: Counter[str] = Counter()
ROPE = Recipe("rope", 2, {"flax": 3})
BELL = Recipe("bell", 1, {"rope": 3, "tin": 1, "flax": 1})
BOOK = Book("bell", {"bell": BELL, "rope": ROPE, "net": Recipe("net", 1, {"rope": 4})})


def made(depth: int, count: int) -> list[Book]:
    books = []
    for seed in range(1, 2 * count):
        with contextlib.suppress(Rejected):
            books.append(make(depth, seed))
    return books[:count]


def fewest_actions(book: Book) -> int:
    """Search over crafts, cheapest first; a raw item costs an action when it is first used."""
    queue, number, seen = [(0, 0, frozenset(), Counter())], itertools.count(1), set()
    while queue:
        cost, _, used, have = heapq.heappop(queue)
        if have[book.goal]:
            return cost
        if (state := (used, frozenset(have.items()))) not in seen:
            seen.add(state)
            for recipe in book.recipes.values():
                crafted = Counter({part: n for part, n in recipe.needs.items() if part in book.recipes})
                if crafted <= have:
                    now = used | (recipe.needs.keys() - crafted.keys())
                    after = have - crafted + Counter({recipe.item: recipe.makes})
                    heapq.heappush(queue, (cost + 1 + len(now - used), next(number), now, after))
    raise AssertionError("it cannot be crafted")


def test_plans_have_the_fewest_actions_from_what_is_had() -> None:
    for book in [BOOK, *(book for book in made(2, 40) if len(book.plan(NOTHING)) < 8)]:
        assert len(book.plan(NOTHING)) == fewest_actions(book) and read(str(book)) == book
    for depth in (2, 3, 4):
        assert {book.depth(book.goal) for book in made(depth, 50)} == {depth}
    assert [*BOOK.missing(Counter({"rope": 4}))] == ["bell", "tin", "flax"]
    assert [*BOOK.missing(Counter({"net": 1}))] == ["bell", "rope", "tin", "flax"]  # its rope is used up
    assert BOOK.plan(NOTHING) == ("get 1 tin", "get 7 flax", str(ROPE), str(ROPE), str(BELL))
    assert BOOK.plan(Counter({"rope": 2, "flax": 3})) == ("get 1 tin", "get 1 flax", str(ROPE), str(BELL))


def test_namesakes_are_the_same_game() -> None:
    for book in made(3, 20):
        items = [*book.recipes, *book.raw]
        named = dict(zip(items, random.Random(1).sample(items, len(items)), strict=True))
        words = re.split(f"({'|'.join(items)})", str(book))
        other = read("".join(named.get(word, word) for word in words))
        assert other.same == book.same and str(other) != str(book)
        needed = {item: book.recipes[item] for item in book.missing(NOTHING) if item in book.recipes}
        assert replace(book, recipes=needed).same == book.same  # the order is another one too
        assert replace(book, recipes={**needed, book.goal: replace(needed[book.goal], makes=9)}).same != book.same


def test_answers_and_points(tmp_path: Path) -> None:
    environment = make_environment("crafting")
    [task] = Catalogue(environment, tmp_path).tasks("d3", "test", 1, reward="dense", progress=False)
    book, env, plan = read(task.goal), environment.new_env(), task.expert_plan
    recipe, raw = book.recipes[book.goal], book.raw[0]
    env.reset(task, 0)
    assert environment.max_turns("d3") == 30
    for action, why in {
        f"get 1 {book.goal}": f"Could not find {book.goal}",
        f"get 0 {raw}": f"Could not execute get 0 {raw}",
        str(recipe): f"Could not find enough items to craft {book.goal}",
        f"craft {book.goal} using 1 diamond": f"Could not find a valid recipe for {book.goal}",
        str(replace(recipe, makes=9)): "Could not find a valid recipe",
        f"craft {book.goal} using {'1,' * 200}": "Wrong item format",
    }.items():
        result = env.step(action)
        assert why in result.observation.text and not result.valid and result.score_delta == 0
    env.step(f"GET 1{'0' * 90} {raw}.")  # far too many do no harm
    assert env.step("inventory").observation.text == f"Inventory: [{raw}] (1{'0' * 90})"
    env.reset(task, 0)
    results = [env.step(action) for action in plan]
    deltas = [result.score_delta for result in results]
    assert results[0].observation.text == plan[0].replace("get", "Got")
    assert set(deltas) <= {0, 1} and sum(deltas) == len(book.missing(NOTHING))
