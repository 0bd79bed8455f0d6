"""What no run can mean, whatever the front door thinks: written from what the numbers are, not from
the door's own checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from math import isfinite
from typing import Any

from fuzz.ranges import CHOICES, FRACTIONS, FREE, range_of

Flat = dict[str, Any]
INT64 = 2**63


def flat(node: Mapping[str, Any], prefix: str = "") -> Flat:
    """Dotted key -> value; lists and empty nodes are values."""
    found: Flat = {}
    for key, value in node.items():
        if isinstance(value, Mapping) and value:
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def nonsense(config: Flat, default: Flat) -> Iterator[str]:
    """Every key that no run could use as it is, with its value.

    Args:
        config: what the front door accepted, resolved.
        default: the config of a command line without a word.
    """
    for key, value in config.items():
        if not all(_exists(item) for item in _items(value)):
            yield f"{key}={value}: no finite number of 64 bits"
        elif (entry := range_of(key)) and not entry.holds(value) and value != default.get(key, ...):
            yield f"{key}={value}: outside of {entry.low} to {entry.high}"
        elif key in CHOICES and value not in CHOICES[key]:
            yield f"{key}={value}: none of {CHOICES[key]}"
    yield from _other_types(config, default)
    yield from _bad_lists(config)


def _exists(item: Any) -> bool:
    """As a number of the usual kinds, if it is one."""
    return abs(item) < INT64 if isinstance(item, int) else not isinstance(item, float) or isfinite(item)


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _items(item)
    else:
        yield value


def _other_types(config: Flat, default: Flat) -> Iterator[str]:
    for key, was in default.items():
        if any(fnmatchcase(key, free) for free in FREE) or was is None or was in ({}, "???"):
            continue
        if key not in config:
            yield f"{key} is gone, or a node"
        elif not _same_type(key, was, config[key]):
            yield f"{key}={config[key]!r}: {type(config[key]).__name__} where the default is {was!r}"


def _same_type(key: str, was: Any, value: Any) -> bool:
    if isinstance(was, bool):
        return value in (True, False) and not isinstance(value, float)
    if isinstance(was, (int, float)):
        entry = range_of(key)
        whole = isinstance(was, int) and not any(fnmatchcase(key, part) for part in FRACTIONS)
        number = isinstance(value, int if whole and not (entry and not entry.whole) else (int, float))
        return (number and not isinstance(value, bool)) or (value is None and bool(entry and entry.null))
    if isinstance(was, list):
        return isinstance(value, list)
    return not isinstance(value, (list, dict))


def _bad_lists(config: Flat) -> Iterator[str]:
    temperatures = config["eval.temperatures"]
    if not temperatures or not all(_number(t) and 0 <= t <= 100 for t in temperatures):
        yield f"eval.temperatures={temperatures}"
    for part in ("actor_rollout_ref.actor", "critic"):
        betas = config.get(f"{part}.optim.betas")
        if not isinstance(betas, list) or len(betas) != 2 or not all(_number(b) and 0 <= b < 1 for b in betas):
            yield f"{part}.optim.betas={betas}"
    turns, keep = config["env.window_turns"], config["env.window_keep"]
    if keep is not None and (turns is None or keep >= turns):
        yield f"env.window_keep={keep} with env.window_turns={turns}"


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
