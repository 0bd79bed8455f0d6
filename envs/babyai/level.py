"""A running level of BabyAI: its view in words, and the commands that have an effect there."""

import contextlib
import copy
import io
import itertools
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any, Self

import gymnasium
import minigrid  # noqa: F401 - registers the levels
from minigrid.core.constants import OBJECT_TO_IDX

from turngrid.envs.environment import facts_hash

WORDS = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle")  # in the order of minigrid's actions
FORWARD, PICK_UP, TOGGLE = 2, 3, 5
_OBJECTS = {OBJECT_TO_IDX[name] for name in ("door", "key", "ball", "box")}
_FREE = {OBJECT_TO_IDX[name] for name in ("empty", "floor")}
_DOOR, _WALL, _OPEN = OBJECT_TO_IDX["door"], OBJECT_TO_IDX["wall"], 0
_HERE = (3, 6)
VERBS = (*WORDS, "go to ", "pick up ", "open ", "go through ")
_TURNS = ((0, -1), (1, 0), (0, 1), (-1, 0))  # directions in the view, each to the right of the one before
Cell = tuple[int, int]
Moves = tuple[int, ...]


class Game:
    """A running level without minigrid's limit of steps.

    Attributes:
        view: what the agent sees, 7 x 7 triples of kind, colour and state; the agent is at [3][6]
            and looks to [3][0].
        names: the objects of a colour and kind, in the order in which they were first seen.
    """

    def __init__(self, level: str, seed: int) -> None:
        with contextlib.redirect_stdout(io.StringIO()):  # minigrid prints which samples it rejects
            self.env, seen = _opened(level, seed)
        self.env.max_steps = sys.maxsize
        self.view: list[Any] = seen["image"].tolist()
        self.names: dict[str, list[Any]] = {}
        self.over = self.won = False

    @property
    def ahead(self) -> Any:
        """The object right in front of the agent, or None."""
        return self.env.grid.get(*self.env.front_pos)

    @property
    def start(self) -> str:
        """A hash of the mission, the whole grid, and the agent's position and direction."""
        here = [int(number) for number in (*self.env.agent_pos, self.env.agent_dir)]
        facts = [self.env.mission, self.env.grid.encode().tolist(), here]
        return facts_hash(facts)

    def play(self, move: int) -> None:
        seen, reward, self.over, _, _ = self.env.step(move)
        self.view, self.won = seen["image"].tolist(), bool(self.over and reward > 0)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copy all but what no action changes."""
        walls = (cell for cell in self.env.grid.grid if cell is not None and cell.type == "wall")
        fixed = (self.env.action_space, self.env.observation_space, self.env.np_random, self.env.spec, *walls)
        memo.update((id(part), part) for part in fixed)
        memo[id(self)] = twin = object.__new__(type(self))
        vars(twin).update((name, copy.deepcopy(value, memo)) for name, value in vars(self).items())
        return twin


def _opened(level: str, seed: int) -> tuple[Any, Any]:
    [name] = [name for name in gymnasium.registry if name.rpartition("-")[0] == f"BabyAI-{level}"]
    env = gymnasium.make(name, disable_env_checker=True).unwrapped
    return env, env.reset(seed=seed)[0]


def objects_in_view(game: Game) -> list[tuple[str, Any, Cell]]:
    """Return the doors, keys, balls and boxes in view, nearest first, and name the new ones.

    Each has its name, the object, and its cell of the view.
    """
    cells = [cell for cell in itertools.product(range(7), range(7)) if cell != _HERE]
    seen = sorted((abs(x - 3) + 6 - y, x, y) for x, y in cells if game.view[x][y][0] in _OBJECTS)
    return [(_name(game, obj), obj, (x, y)) for _, x, y in seen for obj in [_object(game, x, y)]]


def described(game: Game) -> str:
    """Return the view in words: what is there, how far the walls are, and what is carried."""
    listed = [f"{_state(obj)}{name} ({_offset(*cell)})" for name, obj, cell in objects_in_view(game)]
    seen = ", ".join([*listed, *_walls(game)]) or "nothing but floor"
    held = game.env.carrying
    return f"You see {seen}. You carry {_name(game, held) if held else 'nothing'}."


def commands(game: Game, macro: bool) -> dict[str, Moves]:
    """Return the commands that have an effect now, and the moves that each stands for."""
    offered: dict[str, Moves] = {word: (move,) for move, word in enumerate(WORDS) if _has_effect(game, move)}
    if not macro:
        return offered
    ways = _ways(game)
    for name, obj, cell in objects_in_view(game):
        if (way := ways.get(cell)) is not None:
            offered |= {f"{verb} {name}": moves for verb, moves in _uses(game, obj, way)}
    return offered


def _uses(game: Game, obj: Any, way: Moves) -> Iterator[tuple[str, Moves]]:
    if way:
        yield "go to", way
    if obj.type != "door":
        if game.env.carrying is None:
            yield "pick up", (*way, PICK_UP)
    elif obj.is_open:
        yield "go through", (*way, FORWARD, FORWARD)
    elif _opens(game, obj):
        yield "open", (*way, TOGGLE)


def _has_effect(game: Game, move: int) -> bool:
    ahead, held = game.ahead, game.env.carrying
    if WORDS[move] == "go forward":
        return ahead is None or ahead.can_overlap()
    if WORDS[move] == "pick up":
        return held is None and ahead is not None and ahead.can_pickup()
    if WORDS[move] == "drop":
        return held is not None and ahead is None
    if WORDS[move] == "toggle":
        return ahead is not None and (ahead.type == "box" or (ahead.type == "door" and _opens(game, ahead)))
    return True


def _opens(game: Game, door: Any) -> bool:
    held = game.env.carrying
    return not door.is_locked or (held is not None and (held.type, held.color) == ("key", door.color))


def _ways(game: Game) -> dict[Cell, Moves]:
    """Return the fewest moves after which the agent faces a cell, over free cells in view."""
    queue: deque[tuple[Cell, int, Moves]] = deque([(_HERE, 0, ())])
    seen, ways = {(_HERE, 0)}, dict[Cell, Moves]()
    while queue:
        cell, turned, moves = queue.popleft()
        front = (cell[0] + _TURNS[turned][0], cell[1] + _TURNS[turned][1])
        ways.setdefault(front, moves)
        step = [(front, turned)] if _is_free(game, front) else []
        for move, state in enumerate([(cell, (turned - 1) % 4), (cell, (turned + 1) % 4), *step]):
            if state not in seen:
                seen.add(state)
                queue.append((*state, (*moves, move)))
    return ways


def _is_free(game: Game, cell: Cell) -> bool:
    if not (0 <= cell[0] < 7 and 0 <= cell[1] < 7):
        return False
    kind, _, state = game.view[cell[0]][cell[1]]
    return cell == _HERE or kind in _FREE or (kind == _DOOR and state == _OPEN)


def _object(game: Game, x: int, y: int) -> Any:
    env = game.env
    position = env.agent_pos + env.dir_vec * (6 - y) + env.right_vec * (x - 3)
    return env.grid.get(*position)


def _name(game: Game, obj: Any) -> str:
    colour_type = f"{obj.color} {obj.type}"
    known = game.names.setdefault(colour_type, [])
    if not any(obj is other for other in known):
        known.append(obj)
    return f"{colour_type} {next(n for n, other in enumerate(known, 1) if other is obj)}"


def _state(obj: Any) -> str:
    if obj.type != "door":
        return ""
    return "open " if obj.is_open else "locked " if obj.is_locked else "closed "


def _walls(game: Game) -> Iterator[str]:
    """Yield the nearest wall forward, to the left and to the right."""
    for line in ([(3, y) for y in range(5, -1, -1)], [(x, 6) for x in (2, 1, 0)], [(x, 6) for x in (4, 5, 6)]):
        nearest = next((_offset(x, y) for x, y in line if game.view[x][y][0] == _WALL), "")
        if nearest:
            yield f"wall ({nearest})"


def _offset(x: int, y: int) -> str:
    forward = [f"{6 - y} forward"] if y < 6 else []
    side = [f"{abs(x - 3)} {'left' if x < 3 else 'right'}"] if x != 3 else []
    return ", ".join(forward + side)
