"""Plans, legal actions and best moves of textarena's games, from a game's hidden state.

textarena itself is not imported here.
"""

from collections import deque
from collections.abc import Callable
from functools import cache
from typing import Any

MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
LINES = ("012", "345", "678", "036", "147", "258", "048", "246")


def way_over_lake(game: Any) -> list[str] | None:
    """Return a shortest way around the holes of FrozenLake, or None."""
    grid, goal = game.state.game_state["grid"], game.state.game_state["goal_pos"]
    start = game.state.game_state["player_pos"]
    seen = {start}
    queue: deque[tuple[Any, list[str]]] = deque([(start, [])])
    while queue:
        (row, column), plan = queue.popleft()
        for word, (down, right) in MOVES.items():
            spot = row + down, column + right
            inside = 0 <= spot[0] < game.size and 0 <= spot[1] < game.size
            if spot in seen or not inside or grid[spot[0]][spot[1]] == "H":
                continue
            if spot == goal:
                return [*plan, word]
            seen.add(spot)
            queue.append((spot, [*plan, word]))
    return None


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
    """Return the moves that leave piles whose binary sum without carry is 0, if there are any."""
    total, moves = 0, _removals(state, player)
    for pile in state["piles"]:
        total ^= pile
    kept = {f"{pile} {left - (left ^ total)}" for pile, left in enumerate(state["piles"])}
    return [move for move in moves if move in kept] or moves


BEST: dict[str, Callable[[Any, int], list[str]]] = {"TicTacToe": _minimax, "Nim": _balance}
