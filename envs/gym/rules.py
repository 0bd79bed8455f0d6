"""Make a gymnasium game, check it, search for a way to win, replay it.

Rules are the content of a game file: ``id``, ``kwargs`` (of ``gymnasium.make``), ``seed`` and
``winning_return``.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from turngrid.envs.environment import Rejected
from turngrid.envs.gym.games import Game
from turngrid.envs.types import TaskError

Rules = Mapping[str, Any]


def make(game_id: str, kwargs: Mapping[str, Any]) -> Any:
    """Make a game.

    Raises:
        TaskError: no such game, it rejects the arguments, or gymnasium is not installed.
    """
    try:
        import gymnasium
    except ImportError as error:
        raise TaskError("env=gym needs gymnasium: pip install gymnasium") from error
    try:
        with warnings.catch_warnings(action="ignore"):
            game = gymnasium.make(game_id, disable_env_checker=True, **kwargs)
    except Exception as error:  # a game's constructor may raise any exception
        reason = repr(error) if isinstance(error, KeyError) else str(error)  # its text is the key only
        raise TaskError(f"env.id={game_id}: {' '.join(reason.split())}") from error
    full = game.spec.id if game.spec else game_id
    if full != game_id.rpartition(":")[2]:  # a bare name means the newest version, which may change
        raise TaskError(f"env.id={game_id} does not say which version; did you mean {full}?")
    return game


def start(rules: Rules) -> Any:
    game = make(rules["id"], rules["kwargs"])
    game.reset(seed=rules["seed"])
    return game


def check_spaces(game: Any) -> None:
    """Check that the game can be shown as text.

    Raises:
        TaskError: the game's observations or actions have no text.
    """
    from gymnasium.spaces import Discrete, Text, Tuple

    seen, acted = game.observation_space, game.action_space
    parts = seen.spaces if isinstance(seen, Tuple) else (seen,)
    if not isinstance(acted, Discrete) or not all(isinstance(part, Discrete | Text) for part in parts):
        kinds = f"observes {type(seen).__name__} and acts by {type(acted).__name__}"
        raise TaskError(f"env.id={game.spec.id} {kinds}; env=gym plays what is Discrete, such as FrozenLake-v1")


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


def expert_plan(game: Any, rules: Rules) -> list[int]:
    """Return a shortest plan that wins; [] if the game is not deterministic.

    Raises:
        Rejected: the game cannot be won.
    """
    plan = shortest_plan(game, rules) if is_certain(game) else []
    if plan is None:
        raise Rejected("it cannot be won")
    return plan if plan and replay(game, rules, plan)[0] else []


def shortest_plan(game: Any, rules: Rules, earned: float = 0.0) -> list[int] | None:
    """Return a shortest plan from the present state, by breadth-first search."""
    state = int(game.unwrapped.s)
    seen = {state}
    queue: deque[tuple[int, list[int], float]] = deque([(state, [], earned)])
    while queue:
        state, plan, so_far = queue.popleft()
        for action, [(_, after, reward, over)] in game.unwrapped.P[state].items():
            total = so_far + reward
            if over and is_win(rules, total):
                return [*plan, int(action)]
            if not over and after not in seen:
                seen.add(after)
                queue.append((int(after), [*plan, int(action)], total))
    return None


def replay(game: Any, rules: Rules, plan: Sequence[int]) -> tuple[bool, float]:
    """Play a plan from the start; return whether it wins, and its return."""
    game.reset(seed=rules["seed"])
    earned, over = 0.0, False
    for action in plan:
        _, reward, over, _, _ = game.step(action)
        earned += float(reward)
    return over and is_win(rules, earned), earned
