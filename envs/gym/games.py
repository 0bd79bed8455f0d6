"""Gymnasium's games: their texts, how one is made, and how it is won.

A game that is not in ``GAMES`` shows its raw observations. To give another game texts, add an
entry. Rules are the content of a game file: ``id``, ``kwargs`` (of ``gymnasium.make``), ``seed``
and ``winning_return``.
"""

import warnings
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from turngrid.envs.types import TaskError

Kwargs = Mapping[str, Any]
Rules = Mapping[str, Any]
_ICE = "Walk over the ice (F) to the goal (G) and into no hole (H). P is you."
_CLIFF = "Walk from the start (S) to the goal (G). A step onto the cliff (C) takes you back to the start. P is you."
_TAXI = "Fetch the passenger and drop them where they want to go. T is the taxi, | a wall; R, G, Y and B are places."
_CARDS = "Come closer to 21 than the dealer without going over it."
_DRIVE = ("south", "north", "east", "west", "pickup", "dropoff")
_SURE = {"is_slippery": False}


@dataclass(frozen=True)
class Game:
    """The texts of a game, and the meaning of its returns.

    Attributes:
        actions: words in the order of gymnasium's numbers; (): the numbers themselves.
        show: renders the game and its observation as text.
        winning_return: None if the game ends by a win only.
        best_return: divisor of the dense reward without a plan; 0 if returns are penalties only.
        kwargs: default arguments of ``gymnasium.make``.
        draw: further arguments, from the arguments and a seed.
    """

    goal: str
    actions: tuple[str, ...]
    show: Callable[[Any, Any], str]
    turns: int
    winning_return: float | None = 1.0
    best_return: float = 1.0
    kwargs: Kwargs = field(default_factory=dict)
    draw: Callable[[Kwargs, int], Kwargs] = lambda kwargs, seed: {}


def _map(game: Any) -> list[str]:
    return [b"".join(letters).decode() for letters in game.desc]


def _put(rows: list[str], row: int, column: int, letter: str) -> list[str]:
    return [*rows[:row], rows[row][:column] + letter + rows[row][column + 1 :], *rows[row + 1 :]]


def _board(rows: list[str], row: int, column: int) -> str:
    return "\n".join(" ".join(letters) for letters in _put(rows, row, column, "P"))


def lake(game: Any, state: int) -> str:
    rows, (row, column) = _map(game), divmod(state, game.ncol)
    ground = {"S": "at the start", "H": "in a hole", "G": "at the goal"}.get(rows[row][column], "on ice")
    return f"You are {ground}.\n{_board(rows, row, column)}"


def lake_map(size: int, kwargs: Kwargs, seed: int) -> Kwargs:
    """Draw a lake with sides of ``size`` tiles, unless the user names a map."""
    from gymnasium.envs.toy_text.frozen_lake import generate_random_map

    return {} if {"desc", "map_name"} & set(kwargs) else {"desc": generate_random_map(size, seed=seed)}


def cliff(game: Any, state: int) -> str:
    return _board(["." * 12] * 3 + ["S" + "C" * 10 + "G"], *divmod(state, 12))


def taxi(game: Any, state: int) -> str:
    row, column, passenger, destination = game.decode(state)
    at = next((f", at {name}" for name, spot in zip("RGYB", game.locs, strict=True) if spot == (row, column)), "")
    waits = "sits in the taxi" if passenger == 4 else f"waits at {'RGYB'[passenger]}"
    fare = f"{waits} and wants to go to {'RGYB'[destination]}" if passenger != destination else "has arrived"
    words = f"The taxi is at row {row + 1}, column {column + 1}{at}. The passenger {fare}."
    board = _put(_map(game), 1 + row, 2 * column + 1, "T")  # the map has a frame and a divider after each column
    return "\n".join([words, *board])


def blackjack(game: Any, seen: tuple[int, int, int]) -> str:
    ace = ", with an ace that counts 11" if seen[2] else ""
    return f"Your cards add up to {seen[0]}{ace}. The dealer shows {'an ace' if seen[1] == 1 else f'a {seen[1]}'}."


def as_observed(game: Any, seen: Any) -> str:
    """Render any observation: numbers in order, or its text."""
    parts = seen if isinstance(seen, tuple) else (seen,)
    return "You observe: " + ", ".join(part if isinstance(part, str) else str(int(part)) for part in parts)


GAMES: dict[str, Game] = {
    "FrozenLake": Game(_ICE, ("left", "down", "right", "up"), lake, 16, kwargs=_SURE, draw=partial(lake_map, 4)),
    "FrozenLake8x8": Game(_ICE, ("left", "down", "right", "up"), lake, 32, kwargs=_SURE, draw=partial(lake_map, 8)),
    "CliffWalking": Game(_CLIFF, ("up", "right", "down", "left"), cliff, 24, None, 0.0),
    "CliffWalkingSlippery": Game(_CLIFF, ("up", "right", "down", "left"), cliff, 48, None, 0.0),
    "Taxi": Game(_TAXI, _DRIVE, taxi, 32, None, 20.0),
    "Blackjack": Game(_CARDS, ("stick", "hit"), blackjack, 12),
}
OTHER = Game("Play the game until it is won.", (), as_observed, 50)


def known(game_id: str) -> Game:
    return GAMES.get(game_id.rsplit("-v", 1)[0], OTHER)


def make(game_id: str, kwargs: Mapping[str, Any]) -> Any:
    """Make a game.

    Raises:
        TaskError: no such game, it rejects the arguments, or gymnasium is not installed.
    """
    import gymnasium

    try:
        with warnings.catch_warnings(action="ignore"):
            game = gymnasium.make(game_id, disable_env_checker=True, **kwargs)
    except Exception as error:  # a game's constructor may raise any exception
        reason = repr(error) if isinstance(error, KeyError) else str(error)  # its text is the key only
        raise TaskError(f"env.id={game_id}: {' '.join(reason.split())}") from error
    full = game.spec.id if game.spec else game_id
    if full != game_id.rpartition(":")[2]:  # a bare name means the newest version, which may change
        raise TaskError(f"env.id={game_id} does not say which version; use {full}")
    return game


def check_spaces(game: Any) -> None:
    """Raise TaskError if a game's observations or actions cannot be written as text."""
    from gymnasium.spaces import Discrete, Text, Tuple

    seen, acted = game.observation_space, game.action_space
    parts = seen.spaces if isinstance(seen, Tuple) else (seen,)
    if not isinstance(acted, Discrete) or not all(isinstance(part, Discrete | Text) for part in parts):
        spaces = f"observes {type(seen).__name__} and acts by {type(acted).__name__}"
        raise TaskError(f"env.id={game.spec.id} {spaces}; env=gym plays what is Discrete, such as FrozenLake-v1")


def words(game: Any, described: Game) -> tuple[str, ...]:
    """Return the words of the actions, in the order of their numbers."""
    space = game.action_space
    return described.actions or tuple(str(number) for number in range(space.start, space.start + space.n))


def is_win(rules: Rules, earned: float) -> bool:
    """Return whether a game that ended by itself with a return was won."""
    return rules["winning_return"] is None or earned >= rules["winning_return"]


def is_certain(game: Any) -> bool:
    """Return whether a game has a deterministic table of transitions (``P``)."""
    moves = getattr(game.unwrapped, "P", {})
    return bool(moves) and all(len(outcomes) == 1 for actions in moves.values() for outcomes in actions.values())


def shortest_plan(game: Any, rules: Rules, earned: float = 0.0) -> tuple[list[int], float]:
    """Return a shortest winning plan from the current state, and its return; [] if there is none.

    Breadth-first search over the states; ``earned`` is the return so far. A game with chance has no
    plan.
    """
    if not is_certain(game):
        return [], earned
    state = int(game.unwrapped.s)
    seen = {state}
    queue: deque[tuple[int, list[int], float]] = deque([(state, [], earned)])
    while queue:
        state, plan, so_far = queue.popleft()
        for action, [(_, after, reward, over)] in game.unwrapped.P[state].items():
            total = so_far + float(reward)
            if over and is_win(rules, total):
                return [*plan, int(action)], total
            if not over and after not in seen:
                seen.add(after)
                queue.append((int(after), [*plan, int(action)], total))
    return [], earned
