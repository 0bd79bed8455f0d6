"""Errors that the command reports in one line, without a traceback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps

from omegaconf import DictConfig

from turngrid.records.process.exit_codes import Refusal


class ConfigError(Refusal):
    """A config that cannot run. The message is one line: what is wrong and what to type."""


def first(problems: Callable[[DictConfig], Iterator[str]]) -> Callable[[DictConfig], str | None]:
    """Decorate a generator of problems, so that it returns the first one, or None."""

    @wraps(problems)
    def refusal(config: DictConfig) -> str | None:
        return next(problems(config), None)

    return refusal
