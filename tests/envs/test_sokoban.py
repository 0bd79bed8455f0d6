"""Sokoban's rooms: made from seeds, solved in the fewest moves, and shown as they are."""

import contextlib
from collections import deque
from pathlib import Path

import pytest

from turngrid.envs.environment import Rejected
from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.registry import make_environment
from turngrid.envs.sokoban.environment import LONGEST, MOVES, SHORTEST, Room, distances, make, plan_of, read, same

TASKS = make_environment("sokoban").examples
STUCK = "######\n#P__##\n#_X_##\n#__O##\n#___##\n######"


def made(task: str, count: int) -> list[tuple[Room, tuple[str, ...]]]:
    params, rooms = make_environment("sokoban").parse_task(task), []
    for seed in range(1, 20 * count):
        with contextlib.suppress(Rejected):
            rooms.append(make(params["side"], params["boxes"], seed))
    return rooms[:count]


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
    for room, plan in made(task, 4):
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
