"""Small fixes of verl. Nothing heavy is imported here."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

WEIGHT_SYNC = "turngrid.verl_plugin.servers.transformers_server.replica.WeightSync"


def with_our_server(registry: dict[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    """Add the trainer's side of our rollout server to verl's registry of class names.

    Until verl offers a decorator, as it does for engines.
    """
    return {**registry, ("transformers", "async"): WEIGHT_SYNC}


class _WithoutFlush(logging.LoggerAdapter):
    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        return msg, {name: value for name, value in kwargs.items() if name != "flush"}


def without_flush(logger: logging.Logger) -> logging.LoggerAdapter:
    """Ignore the argument ``flush``, which verl's separate asynchronous trainer passes to its
    logger (a bug).

    Until verl fixes it.
    """
    return _WithoutFlush(logger)


def save_copies(save: Callable[[object], tuple[dict[str, tuple], object]]) -> Callable[[object], Any]:
    """Copy the weights that verl saves to the CPU: if they are there already, verl saves them
    uncopied (a bug).

    Until verl fixes it.
    """

    def save_copies(model: object) -> tuple[dict[str, tuple], object]:
        state, spec = save(model)
        return {name: (tensor.clone(), own) for name, (tensor, own) in state.items()}, spec

    return save_copies
