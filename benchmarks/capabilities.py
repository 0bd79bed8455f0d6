"""Trainer modes and rollout servers that refuse a method: a table of docs/methods.md."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from turngrid.algorithms.registry import ALGO, ESTIMATORS, FORM, LINEAR, ONE, SLOTS
from turngrid.config.asynchronous import MODES, SEPARATE
from turngrid.config.checks.methods import MODE, OF_SLOT, REQUIREMENTS
from turngrid.config.compose import composer
from turngrid.config.method_settings import methods_of
from turngrid.rewards.declared import Conflict

SERVER, SHARE = "actor_rollout_ref.rollout.name", "share of a step"
SERVERS = ("transformers", "vllm")
HEAD = ", ".join(["option", *(f"`{value}`" for value in (*MODES, *SERVERS)), "why not"])
OPTIONS = {slot: sorted({*names} - {LINEAR}) for slot, names in {**SLOTS, ALGO: ESTIMATORS}.items()}


def rows() -> Iterator[list[str]]:
    """Yield a row for each method that some mode or server refuses."""
    for (slot, name), method in sorted(_methods().items()):
        why = [_refusal(slot, method, {MODE: mode, SHARE: mode == SEPARATE}) for mode in MODES]
        why += [_refusal(slot, method, {SERVER: server}) for server in SERVERS]
        if any(why):
            cells = ["no" if reason else "yes" for reason in why]
            yield [f"`{slot}={name}`", *cells, "; ".join(dict.fromkeys(filter(None, why)))]


def _methods() -> dict[tuple[str, str], Any]:
    """Return all methods with default settings."""
    methods = {}
    with composer() as composed:
        for options in _configs():
            words = [f"{slot}={names[0] if slot in (ALGO, FORM) else names}" for slot, names in options.items()]
            chosen = methods_of(composed(words))
            methods |= {(slot, name): method for slot in options for name, method in chosen.of(slot, 1).items()}
    return methods


def _configs() -> Iterator[dict[str, list[str]]]:
    """Yield all multi-method slots first, then the i-th method of each single-method slot."""
    single = {slot: OPTIONS[slot] for slot in (ALGO, *ONE)}
    yield {slot: names for slot, names in OPTIONS.items() if slot not in single}
    for names in zip_longest(*single.values()):
        yield {slot: [name] for slot, name in zip(single, names, strict=True) if name}


def _refusal(slot: str, method: Any, facts: dict[str, Any]) -> str:
    """Return the first reason against these values, or ""."""
    for conflict in _conflicts(slot, method):
        values = [facts.get(key) for key in conflict.keys]
        if None not in values and conflict.when(method, *values):
            return conflict.reason.format(*values, method=method)
    return ""


def _conflicts(slot: str, method: Any) -> Iterator[Conflict]:
    yield from OF_SLOT.get(slot, ())
    yield from method.conflicts
    for word in sorted(method.requires):
        yield from REQUIREMENTS[word]
