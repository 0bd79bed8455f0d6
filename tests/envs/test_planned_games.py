"""Games made here from seeds, with the fewest actions as plans: crafting, answered as by TextCraft,
and Sokoban's rooms."""

import contextlib
import heapq
import itertools
import random
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from turngrid.envs.crafting import environment as crafting
from turngrid.envs.crafting.environment import Book, Recipe
from turngrid.envs.environment import Rejected
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.registry import make_environment
from turngrid.envs.sokoban.environment import LONGEST, MOVES, SHORTEST, Room, distances, make, plan_of, read, same


def first(count: int, made: Callable[[int], Any]) -> list[Any]:
    """The first games; some seeds make none."""

    def accepted() -> Iterator[Any]:
        for seed in range(1, 20 * count):
            with contextlib.suppress(Rejected):
                yield made(seed)

    return [*itertools.islice(accepted(), count)]


# ---- crafting

NOTHING: Counter[str] = Counter()
ROPE = Recipe("rope", 2, {"flax": 3})
BELL = Recipe("bell", 1, {"rope": 3, "tin": 1, "flax": 1})
BOOK = Book("bell", {"bell": BELL, "rope": ROPE, "net": Recipe("net", 1, {"rope": 4})})


def books(depth: int, count: int) -> list[Book]:
    return first(count, lambda seed: crafting.make(depth, seed))


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
    for book in [BOOK, *(book for book in books(2, 40) if len(book.plan(NOTHING)) < 8)]:
        assert len(book.plan(NOTHING)) == fewest_actions(book) and crafting.read(str(book)) == book
    for depth in (2, 3, 4):
        assert {book.depth(book.goal) for book in books(depth, 50)} == {depth}
    assert [*BOOK.missing(Counter({"rope": 4}))] == ["bell", "tin", "flax"]
    assert [*BOOK.missing(Counter({"net": 1}))] == ["bell", "rope", "tin", "flax"]  # its rope is used up
    assert BOOK.plan(NOTHING) == ("get 1 tin", "get 7 flax", str(ROPE), str(ROPE), str(BELL))
    assert BOOK.plan(Counter({"rope": 2, "flax": 3})) == ("get 1 tin", "get 1 flax", str(ROPE), str(BELL))


def test_namesakes_are_the_same_game() -> None:
    for book in books(3, 20):
        items = [*book.recipes, *book.raw]
        named = dict(zip(items, random.Random(1).sample(items, len(items)), strict=True))
        words = re.split(f"({'|'.join(items)})", str(book))
        other = crafting.read("".join(named.get(word, word) for word in words))
        assert other.same == book.same and str(other) != str(book)
        needed = {item: book.recipes[item] for item in book.missing(NOTHING) if item in book.recipes}
        assert replace(book, recipes=needed).same == book.same  # the order is another one too
        assert replace(book, recipes={**needed, book.goal: replace(needed[book.goal], makes=9)}).same != book.same


def test_answers_and_points(tmp_path: Path) -> None:
    environment = make_environment("crafting")
    [task] = Catalogue(environment, tmp_path).tasks("d3", "test", 1, reward="dense", progress=False)
    book, env, plan = crafting.read(task.goal), environment.new_env(), task.expert_plan
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


# ---- Sokoban

TASKS = make_environment("sokoban").examples
STUCK = "######\n#P__##\n#_X_##\n#__O##\n#___##\n######"


def fewest_moves(room: Room) -> int:
    """Forward play, breadth first: another search than the one that makes plans."""
    seen, queue = {str(room)}, deque([(room, 0)])
    while queue:
        room, moves = queue.popleft()
        if room.boxes == room.targets:
            return moves
        for after in filter(None, map(room.moved, MOVES)):
            if str(after) not in seen:
                seen.add(str(after))
                queue.append((after, moves + 1))
    raise AssertionError("it cannot be won")


@pytest.mark.parametrize("task", TASKS)
def test_plans_win_in_the_fewest_moves(task: str) -> None:
    params = make_environment("sokoban").parse_task(task)
    for room, plan in first(4, lambda seed: make(params["side"], params["boxes"], seed)):
        assert SHORTEST <= len(plan) <= LONGEST and room.placed == 0
        assert len(plan) == fewest_moves(room)
        assert str(read(str(room))) == str(room) and read(str(room)) == room
        for number, move in enumerate(plan, 1):
            room = room.moved(move)
            assert room and (room.boxes == room.targets) == (number == len(plan))


def test_a_room_that_cannot_be_won_has_no_plan() -> None:
    room = read(STUCK)
    found = distances(room)
    assert len(plan_of(room, found)) == fewest_moves(room) > 0
    for move in ("right", "down", "down"):
        room = room.moved(move) or room
    assert plan_of(room, found) == () and room.boxes != room.targets


def test_turned_and_mirrored_rooms_are_the_same() -> None:
    lines = STUCK.split("\n")
    turned = ["".join(column) for column in zip(*lines[::-1], strict=True)]
    for other in (lines[::-1], [line[::-1] for line in lines], turned, turned[::-1]):
        assert same(read("\n".join(other))) == same(read(STUCK))
    assert same(read(STUCK.replace("P_", "_P"))) != same(read(STUCK))


def test_moves_without_effect_are_told(tmp_path: Path) -> None:
    environment = make_environment("sokoban")
    [task] = Catalogue(environment, tmp_path).tasks("s7-b2", "test", 1, reward="dense", progress=False)
    env = environment.env(legal=True)
    seen = env.reset(task, 0)
    for action, why in (("jump", "There is no action 'jump'."), ("", "not allowed")):
        assert why in env.step(action).observation.text
    for move in {*MOVES} - {*seen.legal}:
        blocked = env.step(move)
        assert f"The way {move} is blocked.\n" in blocked.observation.text and not blocked.valid
    assert sum(env.step(move).score_delta for move in task.expert_plan) == 2.0
