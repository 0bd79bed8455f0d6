"""The worlds that ``env=NAME`` may name. A world of your own is one more line here."""

from __future__ import annotations

import difflib
import importlib

from envs.types import TaskError
from envs.world import World

WORLDS: dict[str, str] = {
    "textworld": "envs.textworld:TextWorldCustom",
    "tw_simple": "envs.tw_simple:TwSimple",
}


def spec(name: str) -> str:
    """``module:Class`` of a registered name; a name of that form stands for itself (a world of another package).

    Raises:
        TaskError: no such world; the message names the nearest one.
    """
    if ":" in name:
        return name
    if name not in WORLDS:
        near = difflib.get_close_matches(name, WORLDS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise TaskError(f"unknown environment {name!r}{hint} (choices: {', '.join(sorted(WORLDS))})")
    return WORLDS[name]


def world(name: str) -> World:
    """The world of that name; its module is imported only now. Raises as ``spec`` does."""
    return load_world(spec(name))


def load_world(spec: str) -> World:
    """A world from ``module:Class``, as the registry and the worker processes name it."""
    module, _, cls = spec.partition(":")
    return getattr(importlib.import_module(module), cls)()
