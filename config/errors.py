"""What the front door answers with one line instead of a traceback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps

from omegaconf import DictConfig

from records.process.exit_codes import Refusal


class ConfigError(Refusal):
    """The user asked for something that cannot be; the message is one line and names what can."""


def first(problems: Callable[[DictConfig], Iterator[str]]) -> Callable[[DictConfig], str | None]:
    """Of a function that yields, in a line each, what is wrong with a config, one that says the first; None where nothing is."""

    @wraps(problems)
    def refusal(config: DictConfig) -> str | None:
        return next(problems(config), None)

    return refusal
