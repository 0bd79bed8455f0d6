"""A gymnasium game and its rules: made, checked, searched for a way to win, replayed.

Rules are the content of a game file: ``id``, ``kwargs`` (of ``gymnasium.make``), ``seed`` and ``winning_return``.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from envs.environment import Rejected
from envs.gym.games import Game
from envs.types import TaskError

Rules = Mapping[str, Any]


def make(game_id: str, kwargs: Mapping[str, Any]) -> Any:
    """The game of this id.

    Raises:
        TaskError: there is none, it does not take these arguments, or gymnasium is not installed.
    """
    try:
        import gymnasium
    except ImportError as error:
        raise TaskError("env=gym needs gymnasium: pip install gymnasium") from error
    try:
        with warnings.catch_warnings(action="ignore"):
            game = gymnasium.make(game_id, disable_env_checker=True, **kwargs)
    except Exception as error:  # a game's own constructor may raise anything
        reason = repr(error) if isinstance(error, KeyError) else str(error)  # whose text is the key alone
        raise TaskError(f"env.id={game_id}: {' '.join(reason.split())}") from error
    full = game.spec.id if game.spec else game_id
    if full != game_id.rpartition(":")[2]:  # a bare name stands for its newest version, which changes with gymnasium
        raise TaskError(f"env.id={game_id} does not say which version; did you mean {full}?")
    return game


def start(rules: Rules) -> Any:
    game = make(rules["id"], rules["kwargs"])
    game.reset(seed=rules["seed"])
    return game


def refuse_untold(game: Any) -> None:
    """Raises: TaskError: what the game observes, or how it is acted on, cannot be told in words."""
    from gymnasium.spaces import Discrete, Text, Tuple

    seen, acted = game.observation_space, game.action_space
    parts = seen.spaces if isinstance(seen, Tuple) else (seen,)
    if not isinstance(acted, Discrete) or not all(isinstance(part, Discrete | Text) for part in parts):
        kinds = f"observes {type(seen).__name__} and acts by {type(acted).__name__}"
        raise TaskError(f"env.id={game.spec.id} {kinds}; env=gym plays what is Discrete, such as FrozenLake-v1")


def words(game: Any, told: Game) -> tuple[str, ...]:
    """What the actions are called, in the order of their numbers."""
    space = game.action_space
    return told.actions or tuple(str(number) for number in range(space.start, space.start + space.n))


def is_win(rules: Rules, earned: float) -> bool:
    """Whether a game that ended by itself with this return was won."""
    return rules["winning_return"] is None or earned >= rules["winning_return"]


def is_certain(game: Any) -> bool:
    """True where the game tells its transitions, as gymnasium's text games do, and leaves none of them to chance."""
    moves = getattr(game.unwrapped, "P", {})
    return bool(moves) and all(len(outcomes) == 1 for actions in moves.values() for outcomes in actions.values())


def expert_plan(game: Any, rules: Rules) -> list[int]:
    """A shortest way to win, played to a win; none where the game is left to chance.

    Raises:
        Rejected: the game cannot be won.
    """
    plan = shortest_plan(game, rules) if is_certain(game) else []
    if plan is None:
        raise Rejected("it cannot be won")
    return plan if plan and replay(game, rules, plan)[0] else []


def shortest_plan(game: Any, rules: Rules, earned: float = 0.0) -> list[int] | None:
    """A shortest win from where the game stands, by breadth-first search over its transitions."""
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
    """Whether the plan wins from the start, and its return."""
    game.reset(seed=rules["seed"])
    earned, over = 0.0, False
    for action in plan:
        _, reward, over, _, _ = game.step(action)
        earned += float(reward)
    return over and is_win(rules, earned), earned
