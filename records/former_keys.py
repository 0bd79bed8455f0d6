"""Config keys and options that had other names: a run keeps its name and its hash, and who types the former name is told
the new one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KEYS = {  # former -> now
    "plan": "estimate",
    "plan_gpu": "estimate_gpu",
    "eval.plays": "eval.samples_per_game",
    "curriculum.stages": "curriculum.phases",
}
VALUES = {  # key -> former value -> now
    "curriculum.name": {"stages": "phases"},
    "demos.source": {"walkthrough": "expert"},
    "env.expert": {"none": "plan"},
}


def answer(key: str) -> str | None:
    """What somebody who typed a former key is told."""
    return f"unknown key {key}; it is called {KEYS[key]} now" if key in KEYS else None


def former_value(key: str, value: Any) -> Any:
    """What the value of a dotted key was called at first."""
    names = {now: former for former, now in VALUES.get(key, {}).items()}
    return names.get(value, value) if isinstance(value, str) else value


def former(node: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A config with the names that its keys and values had at first, so that a hash over it stays what it was."""
    names = {now: before.rpartition(".")[2] for before, now in KEYS.items()}
    found: dict[str, Any] = {}
    for name, value in node.items():
        key = f"{prefix}{name}"
        below = former(value, f"{key}.") if isinstance(value, Mapping) else former_value(key, value)
        found[names.get(key, name)] = below
    return found
