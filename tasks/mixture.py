"""A mixture of tasks (``env.tasks``): games of each task in a split, and in each batch.

A batch depends on the numbers of games, its index and the seed only, not on earlier draws.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

from turngrid.envs.types import TaskError
from turngrid.rollouts.seeds import derive_seed

NAME_LENGTH = 32  # characters of a run folder's name for the tasks
_GOLDEN = (math.sqrt(5) - 1) / 2


def task_weights(env: Mapping[str, Any]) -> dict[str, float]:
    """Return weights by task: ``env.tasks`` (a list means equal weights), else ``env.task``.

    Raises:
        TaskError: there is no task, a task is repeated, or a weight is not a positive number.
    """
    tasks = env.get("tasks")
    if tasks is None:
        return {str(env["task"]): 1.0}
    if isinstance(tasks, str) or not isinstance(tasks, Mapping | Sequence) or not tasks:
        raise TaskError(f"env.tasks={tasks} must list tasks, as [a,b] or {{a: 3, b: 1}}")
    if not isinstance(tasks, Mapping):
        names = [str(task) for task in tasks]
        if twice := next((task for task in names if names.count(task) > 1), None):
            raise TaskError(f"env.tasks names {twice} twice; weights are written as {{{twice}: 2, ...}}")
        return dict.fromkeys(names, 1.0)
    for task, weight in tasks.items():
        if type(weight) not in (int, float) or not 0 < weight < math.inf:
            raise TaskError(f"env.tasks: the weight of {task} is {weight}; it must be more than 0")
    return {str(task): float(weight) for task, weight in tasks.items()}


def shares(weights: Mapping[str, float], total: int) -> dict[str, int]:
    """Divide ``total`` in proportion to the weights by largest remainders; ties go to the first.

    >>> shares({"a": 1, "b": 1, "c": 1}, 5)
    {'a': 2, 'b': 2, 'c': 1}
    """
    exact = {task: Fraction(str(weight)) for task, weight in weights.items()}
    quotas = {task: total * weight / sum(exact.values()) for task, weight in exact.items()}
    counts = {task: math.floor(quota) for task, quota in quotas.items()}
    left = total - sum(counts.values())
    for task in sorted(quotas, key=lambda task: counts[task] - quotas[task])[:left]:
        counts[task] += 1
    return counts


def spread(counts: Mapping[str, int]) -> list[str]:
    """List each task ``counts`` times, evenly spread: any first part has about these shares.

    >>> spread({"a": 4, "b": 2})
    ['a', 'b', 'a', 'a', 'b', 'a']
    """
    positions = [(Fraction(2 * i + 1, 2 * n), task) for task, n in counts.items() for i in range(n)]
    return [task for _, task in sorted(positions, key=lambda item: item[0])]


def in_batch(games: Mapping[str, int], size: int, index: int, seed: int = 0) -> dict[str, int]:
    """Return the number of games of each task in batch ``index``, counted from 0, of ``size``.

    In every batch a task's count is its share rounded down or up; over a cycle of batches it is
    exact. A cycle is one epoch if ``size`` divides the number of games, else the fewest batches
    that make whole epochs. Whole shares are assigned first, remainders by systematic sampling.
    For that they lie end to end on a circle, and a batch takes positions that are ``cycle`` apart.
    """
    common = math.gcd(sum(games.values()), size)
    cycle = sum(games.values()) // common
    position = _visits(cycle)[(index + derive_seed("batches", seed)) % cycle]
    counts, start = {}, 0
    for task, number in games.items():
        whole, left = divmod(number * (size // common), cycle)
        counts[task] = whole + ((position - start) % cycle < left)
        start += left
    return counts


@cache
def _visits(positions: int) -> tuple[int, ...]:
    """Return an order that visits every position once and keeps neighbours far apart in time.

    The order is the ranks of the golden ratio's multiples, modulo 1.
    """
    by_size = sorted(range(positions), key=lambda time: time * _GOLDEN % 1)
    visits = [0] * positions
    for position, time in enumerate(by_size):
        visits[time] = position
    return tuple(visits)


def task_of(key: str) -> str:
    return key.split("/", 1)[-1].rsplit("/", 1)[0]


def mixture_name(weights: Mapping[str, float]) -> str:
    """Return a short name for a run folder: the tasks, or their number."""
    equal = len(set(weights.values())) == 1
    name = "+".join(task if equal else f"{weight:g}x{task}" for task, weight in weights.items())
    return name if len(weights) == 1 or len(name) <= NAME_LENGTH else f"mix{len(weights)}"
