"""Sokoban rooms made here, of the sizes that RAGEN and verl-agent report: ``env=sokoban``.

A room is rows of characters: ``#`` wall, ``_`` floor, ``O`` target, ``X`` box, ``*`` box on a
target, ``P`` player, ``S`` player on a target.
"""

import random
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from turngrid.envs.environment import Environment, GameRecord, Params, PromptStyle, Rejected
from turngrid.envs.text_env import RawStep, TextEnv, accepted_file
from turngrid.envs.types import InvalidAction, Observation, TaskRef

Cell = tuple[int, int]
State = tuple[Cell, frozenset[Cell]]  # the player, and the boxes
MOVES: dict[str, Cell] = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
SHORTEST, LONGEST = 4, 20  # moves of an expert plan
_WALLS = 0.25  # share of walls inside, at most
_LOOKS = {(False, False): "_O", (True, False): "PS", (False, True): "X*"}  # player, box: off and on a target
SIDES, BOXES = (6, 7, 8), (1, 2)
_GOAL = (
    "Push every box (X) onto a target (O). P is you, # a wall, _ floor, * a box on a target, S you on a target. "
    "You cannot pull a box, nor push two."
)


@dataclass(frozen=True)
class Room:
    """A room and where its boxes are; every cell is a (row, column)."""

    rows: int
    columns: int
    floor: frozenset[Cell]
    targets: frozenset[Cell]
    player: Cell
    boxes: frozenset[Cell]

    @property
    def placed(self) -> int:
        return len(self.boxes & self.targets)

    def moved(self, move: str) -> Self | None:
        """Return the room after a move; None if a wall or a box that cannot be pushed blocks it."""
        step = MOVES[move]
        player = _plus(self.player, step)
        if player not in self.floor:
            return None
        if player not in self.boxes:
            return replace(self, player=player)
        pushed = _plus(player, step)
        if pushed not in self.floor or pushed in self.boxes:
            return None
        return replace(self, player=player, boxes=self.boxes - {player} | {pushed})

    def __str__(self) -> str:
        return "\n".join(
            "".join(self._look((row, column)) for column in range(self.columns)) for row in range(self.rows)
        )

    def _look(self, cell: Cell) -> str:
        if cell not in self.floor:
            return "#"
        return _LOOKS[cell == self.player, cell in self.boxes][cell in self.targets]


def read(text: str) -> Room:
    """Return the room that ``str`` wrote."""
    cells = {(row, column): look for row, line in enumerate(text.split("\n")) for column, look in enumerate(line)}

    def cells_of(looks: str) -> frozenset[Cell]:
        return frozenset(cell for cell, look in cells.items() if look in looks)

    (player,) = cells_of("PS")
    rows, columns = max(cells)
    return Room(rows + 1, columns + 1, cells_of("_OPSX*"), cells_of("OS*"), player, cells_of("X*"))


def distances(room: Room) -> dict[State, int]:
    """Return the fewest moves to a win from each state of a room that can be won.

    Reverse play, breadth first, from all states in which the boxes are on the targets.
    """
    solved = [(cell, room.targets) for cell in sorted(room.floor - room.targets)]
    fewest: dict[State, int] = dict.fromkeys(solved, 0)
    queue = deque(solved)
    while queue:
        state = queue.popleft()
        for before in _before(room.floor, state):
            if before not in fewest:
                fewest[before] = fewest[state] + 1
                queue.append(before)
    return fewest


def _before(floor: frozenset[Cell], state: State) -> Iterator[State]:
    """Yield the states from which one move leads to ``state``."""
    player, boxes = state
    for row, column in MOVES.values():
        origin, pushed = (player[0] - row, player[1] - column), (player[0] + row, player[1] + column)
        if origin in floor and origin not in boxes:
            yield origin, boxes
            if pushed in boxes:
                yield origin, boxes - {pushed} | {player}


def plan_of(room: Room, fewest: dict[State, int]) -> tuple[str, ...]:
    """Return a shortest plan from ``room``, given its ``distances``; () if it cannot be won."""
    plan: list[str] = []
    while left := fewest.get((room.player, room.boxes), 0):
        after = ((move, room.moved(move)) for move in MOVES)
        move, room = next((m, r) for m, r in after if r and fewest.get((r.player, r.boxes)) == left - 1)
        plan.append(move)
    return tuple(plan)


def make(side: int, boxes: int, seed: int) -> tuple[Room, tuple[str, ...]]:
    """Make a seed's room of ``side`` x ``side`` cells, and its shortest plan.

    Targets are drawn in a random room; reverse play from the solved room gives every start that
    can be won. First the plan's length is drawn, then one of the starts of that length at which no
    box is on a target.

    Raises:
        Rejected: there is no such start.
    """
    draw = random.Random(f"sokoban {side} {boxes} {seed}")
    floor = _floor(side, draw)
    if len(floor) < 3 * boxes + 2:
        raise Rejected("too little floor")
    targets = frozenset(draw.sample(sorted(floor), boxes))
    empty = Room(side, side, floor, targets, min(floor - targets), targets)
    fewest = distances(empty)
    starts: dict[int, list[State]] = {}
    for state, length in fewest.items():
        if SHORTEST <= length <= LONGEST and not state[1] & targets:
            starts.setdefault(length, []).append(state)
    if not starts:
        raise Rejected("no start that can be won in so many moves")
    player, placed = draw.choice(starts[draw.choice(sorted(starts))])
    room = replace(empty, player=player, boxes=placed)
    return room, plan_of(room, fewest)


def _floor(side: int, draw: random.Random) -> frozenset[Cell]:
    """Return the largest connected floor after some inner cells became walls."""
    inner = [(row, column) for row in range(1, side - 1) for column in range(1, side - 1)]
    left = set(inner) - set(draw.sample(inner, draw.randint(0, int(_WALLS * len(inner)))))
    regions: list[tuple[int, list[Cell]]] = []
    while left:
        region = [left.pop()]
        for cell in region:
            near = {_plus(cell, step) for step in MOVES.values()} & left
            left -= near
            region += near
        regions.append((len(region), sorted(region)))
    return frozenset(max(regions)[1])


def same(room: Room) -> str:
    """Return a text that is equal for rooms that differ by turning or mirroring only."""
    lines = str(room).split("\n")
    looks = []
    for _ in range(4):
        lines = ["".join(column) for column in zip(*reversed(lines), strict=True)]  # a quarter turn
        looks += ["\n".join(lines), "\n".join(line[::-1] for line in lines)]
    return min(looks)


def _plus(cell: Cell, step: Cell) -> Cell:
    return cell[0] + step[0], cell[1] + step[1]


class SokobanEnv(TextEnv):
    """One room at a time; the score is the number of boxes on targets."""

    ends = ""

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        self._room = read(accepted_file(task).read_text())
        self._distances = distances(self._room) if self._expert else {}
        return self.observe_message("")

    def step_game(self, command: str) -> RawStep:
        if command not in MOVES:
            raise InvalidAction(f"There is no action {command!r}.")
        if (room := self._room.moved(command)) is None:
            raise InvalidAction(f"The way {command} is blocked.")
        self._room = room
        return RawStep(self.observe_message(""), room.placed, won=room.boxes == room.targets)

    def observe_message(self, message: str) -> Observation:
        board = "\n".join(" ".join(line) for line in str(self._room).split("\n"))
        return super().observe_message(f"{message}\n{board}".lstrip())

    def legal_actions(self) -> tuple[str, ...]:
        return tuple(move for move in MOVES if self._room.moved(move))

    def expert_actions(self) -> tuple[str, ...]:
        return plan_of(self._room, self._distances)


class Sokoban(Environment):
    """Tasks: ``sSIDE-bBOXES``, a square room and its number of boxes."""

    name = "sokoban"
    Env = SokobanEnv
    turns = 30
    rewards = ("sparse", "dense")
    prompt = PromptStyle("You are solving a Sokoban puzzle.", "Answer with one action: up, down, left or right.")
    examples = tuple(f"s{side}-b{boxes}" for side in SIDES for boxes in BOXES)
    lists_actions = True

    def parse_task(self, task: str) -> dict[str, Any]:
        self.check_task(task)
        side, boxes = map(int, re.findall(r"\d", task))
        return {"side": side, "boxes": boxes}

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        room, plan = make(params["side"], params["boxes"], seed)
        (folder / "room.txt").write_text(str(room))
        return GameRecord("room.txt", goal=_GOAL, expert_plan=plan, fingerprint=same(room), max_score=params["boxes"])
