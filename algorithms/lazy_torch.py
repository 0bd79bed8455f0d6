"""torch, imported when something of it is first used: whoever only reads the settings of a method starts without it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P, T = ParamSpec("P"), TypeVar("T")


def __getattr__(name: str) -> Any:
    import torch

    globals()[name] = found = getattr(torch, name)
    return found


def no_grad() -> Callable[[Callable[P, T]], Callable[P, T]]:
    """``@torch.no_grad()``, which would import it."""

    def quiet(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def called(*args: P.args, **settings: P.kwargs) -> T:
            import torch

            with torch.no_grad():
                return function(*args, **settings)

        return called

    return quiet
