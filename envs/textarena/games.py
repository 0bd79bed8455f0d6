"""Expert plans, legal actions and best moves of textarena's games, from the game's present state.

Each function reads the game's hidden state. textarena itself is not imported here.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

Plan = list[str] | None
Spot = tuple[int, int]
MOVES: dict[str, Spot] = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
_WALL, _TARGET, _BOX_ON_TARGET, _BOX = 0, 2, 3, 4
_STATES = 50_000
LINES = ("012", "345", "678", "036", "147", "258", "048", "246")


def legal_words(game: Any) -> tuple[str, ...]:
    """Return the random policy's actions: directions, or numbers that were not guessed yet."""
    if hasattr(game, "guessed_numbers"):
        return tuple(str(n) for n in range(game.min_number, game.max_number + 1) if n not in game.guessed_numbers)
    return tuple(MOVES)


def sokoban(game: Any) -> Plan:
    """Return a shortest plan, by search over the places of the player and the boxes.

    None if a box starts on a target: textarena does not count such a box until it was pushed.
    """
    walls, targets = _spots(game.room_fixed, _WALL), _spots(game.room_fixed, _TARGET)
    boxes = _spots(game.room_state, _BOX, _BOX_ON_TARGET)
    if boxes & targets:
        return None
    start = (tuple(map(int, game.player_position)), boxes)

    def after(state: tuple[Spot, frozenset[Spot]], move: Spot) -> tuple[Spot, frozenset[Spot]] | None:
        me, boxes = _beside(state[0], move), state[1]
        if me in boxes:
            pushed = _beside(me, move)
            boxes = boxes if pushed in boxes or pushed in walls else boxes - {me} | {pushed}
        return None if me in walls or me in boxes else (me, boxes)

    return _search(start, after, lambda state: state[1] <= targets)


def frozen_lake(game: Any) -> Plan:
    """Return a shortest way around the holes."""
    grid, goal = game.state.game_state["grid"], game.state.game_state["goal_pos"]

    def after(spot: Spot, move: Spot) -> Spot | None:
        row, column = _beside(spot, move)
        inside = 0 <= row < game.size and 0 <= column < game.size
        return (row, column) if inside and grid[row][column] != "H" else None

    return _search(game.state.game_state["player_pos"], after, lambda spot: spot == goal)


def guess_the_number(game: Any) -> Plan:
    """Return the guesses of a binary search, which needs only "higher" and "lower"."""

    def guesses(low: int, high: int) -> Iterator[int]:
        middle = (low + high) // 2
        yield middle
        if middle != game.game_number:
            yield from guesses(*((middle + 1, high) if middle < game.game_number else (low, middle - 1)))

    return [str(guess) for guess in guesses(game.min_number, game.max_number)]


def _search(start: Any, after: Callable[[Any, Spot], Any], is_won: Callable[[Any], bool]) -> Plan:
    seen = {start}
    queue: deque[tuple[Any, list[str]]] = deque([(start, [])])
    while queue and len(seen) < _STATES:
        state, plan = queue.popleft()
        for word, move in MOVES.items():
            reached = after(state, move)
            if reached is None or reached in seen:
                continue
            if is_won(reached):
                return [*plan, word]
            seen.add(reached)
            queue.append((reached, [*plan, word]))
    return None


def _beside(spot: Spot, move: Spot) -> Spot:
    return spot[0] + move[0], spot[1] + move[1]


def _spots(room: Any, *values: int) -> frozenset[Spot]:
    return frozenset((r, c) for r, row in enumerate(room.tolist()) for c, value in enumerate(row) if value in values)


PLANS: dict[str, Callable[[Any], Plan]] = {
    "Sokoban": sokoban,
    "FrozenLake": frozen_lake,
    "GuessTheNumber": guess_the_number,
}


def legal_actions(name: str, game: Any) -> tuple[str, ...]:
    """Return the actions that the player to move may take; of a negotiation, only simple ones."""
    return tuple(LEGAL[name](game.state.game_state, game.state.current_player_id))


def best_actions(name: str, game: Any) -> tuple[str, ...]:
    """Return the legal actions of exact play; () for a game without an exact player."""
    return tuple(BEST[name](game.state.game_state, game.state.current_player_id)) if name in BEST else ()


def _cells(state: Any, player: int) -> list[str]:
    return [str(cell) for cell in range(9) if not state["board"][cell // 3][cell % 3]]


def _columns(state: Any, player: int) -> list[str]:
    return [f"col {column}" for column, top in enumerate(state["board"][0]) if top == "."]


def _removals(state: Any, player: int) -> list[str]:
    return [f"{pile} {count}" for pile, left in enumerate(state["piles"]) for count in range(1, left + 1)]


def _trades(state: Any, player: int) -> list[str]:
    """Return an answer to the offer, if there is one, and the trades of one piece for another."""
    own, offer = state["player_resources"][player], state["current_offer"]
    answers = ["deny"]
    if offer and all(own.get(name, 0) >= count for name, count in offer["requested_resources"].items()):
        answers = ["accept", "deny"]
    offers = [f"offer: 1 {a.lower()} -> 1 {b.lower()}" for a in own for b in own if a != b and own[a]]
    return [*answers, *offers]


LEGAL: dict[str, Callable[[Any, int], list[str]]] = {
    "TicTacToe": _cells,
    "KuhnPoker": lambda state, player: list(state["current_legal_action_tree"]),
    "ConnectFour": _columns,
    "Nim": _removals,
    "SimpleNegotiation": _trades,
    "PigDice": lambda state, player: ["roll", "hold"],
}


@cache
def value(board: str, mark: str) -> int:
    """Return the result of exact play, 1, 0 or -1, for the player with ``mark``, who is to move.

    Args:
        board: nine characters, X, O or a space.
    """
    other = "O" if mark == "X" else "X"
    if any(all(board[int(cell)] == other for cell in line) for line in LINES):
        return -1
    return max((-value(board[:cell] + mark + board[cell + 1 :], other) for cell in _empty(board)), default=0)


def _empty(board: str) -> list[int]:
    return [cell for cell, mark in enumerate(board) if mark == " "]


def _minimax(state: Any, player: int) -> list[str]:
    board, mark = "".join(cell or " " for row in state["board"] for cell in row), "OX"[player]
    other, best = "XO"[player], value(board, mark)
    after = {cell: board[:cell] + mark + board[cell + 1 :] for cell in _empty(board)}
    return [str(cell) for cell, reached in after.items() if -value(reached, other) == best]


def _balance(state: Any, player: int) -> list[str]:
    """Return the moves that make the nim-sum (XOR) of the piles 0; all moves if none does."""
    total, moves = 0, _removals(state, player)
    for pile in state["piles"]:
        total ^= pile
    kept = {f"{pile} {left - (left ^ total)}" for pile, left in enumerate(state["piles"])}
    return [move for move in moves if move in kept] or moves


BEST: dict[str, Callable[[Any, int], list[str]]] = {"TicTacToe": _minimax, "Nim": _balance}
