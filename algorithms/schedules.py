"""Schedules, which may replace any number among a method's settings.

``{linear: [1, 0, 100]}``, ``{cosine_up: 100}``, ``{cosine_down: 100}``, ``{steps: {1: 6, 101:
13}}``, or ``{"module:Name": ...}``. All are pure functions of the step, counted from 1, so that a
resumed run needs no state.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from turngrid.envs.extensions import find

Schedule = Callable[[int], float]


def linear(arguments: Sequence[float]) -> Schedule:
    """``[a, b, T]``: a at step 0, b from step T on; raise ValueError for other arguments."""
    if len(arguments) != 3:
        raise ValueError(f"linear takes [from, to, steps], not {list(arguments)}")
    start, end, steps = map(float, arguments)
    _positive(steps)
    return lambda step: start + (end - start) * min(step / steps, 1.0)


def cosine_up(steps: float) -> Schedule:
    """Return ``(1 - cos(pi k / T)) / 2`` up to step T, then 1; raise ValueError if T <= 0."""
    _positive(steps)
    return lambda step: (1 - math.cos(math.pi * min(step / steps, 1.0))) / 2


def cosine_down(steps: float) -> Schedule:
    """Return ``(1 + cos(pi k / T)) / 2`` up to step T, then 0; raise ValueError if T <= 0."""
    up = cosine_up(steps)
    return lambda step: 1 - up(step)


def steps(values: Mapping[Any, float]) -> Schedule:
    """``{1: a, 101: b}``: a from step 1, b from step 101; raise ValueError without step 1."""
    known = {int(first): float(value) for first, value in values.items()}
    if min(known, default=2) > 1:
        raise ValueError(f"steps must begin with step 1, not {min(known, default='nothing')}")
    return lambda step: known[max(first for first in known if first <= max(step, 1))]


def _positive(steps: float) -> None:
    if not steps > 0:
        raise ValueError(f"the number of steps must be above 0, not {steps}")


SCHEDULES: dict[str, str] = {
    name: f"turngrid.algorithms.schedules:{name}" for name in ("linear", "cosine_up", "cosine_down", "steps")
}


def schedule(node: Mapping[str, Any]) -> Schedule:
    """Make a schedule from ``{NAME: ARGUMENTS}``.

    Raises:
        ValueError: it names no schedule (the message has the nearest name), or several.
    """
    if len(node) != 1:
        raise ValueError(
            f"a schedule is one name with its arguments, such as {{linear: [1, 0, 100]}}, not {dict(node)}"
        )
    ((name, arguments),) = node.items()
    return find("schedule", str(name), SCHEDULES)(arguments)
