"""The methods that a run has chosen, from its config: made once, told the step's numbers, saved with every checkpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

from algorithms.registry import ALGORITHMS, ESTIMATORS, ON_TURNS, SLOTS, Algorithm, on_turns
from algorithms.schedules import Schedule, schedule
from envs.extensions import find
from rewards.shaping.view import TRAINED

TARGET = "target"  # ``module:Name`` of somebody's own method; without it the name is one of ours
ALGO = "algo"
OF_NODE = ("name", "state")  # keys of the node ``algo`` that are no settings of an estimator
KNOWN = {**SLOTS, ALGO: {**dict.fromkeys(ALGORITHMS, ""), **ESTIMATORS}}


def slots_of(config: DictConfig, slots: Iterable[str] = (*SLOTS, ALGO)) -> dict[str, Any]:
    """The nodes of these slots as plain settings, for ``Chosen``."""
    return {slot: OmegaConf.to_container(config.get(slot) or OmegaConf.create(), resolve=True) for slot in slots}


class Method:
    """One method with its settings, of which any number may follow a schedule."""

    def __init__(self, slot: str, name: str, settings: Mapping[str, Any]) -> None:
        """Raises: ValueError: there is no such method, or it cannot have these settings."""
        given = dict(settings)
        kind = method_class(slot, name, given)
        given.pop(TARGET, None)
        self.schedules: dict[str, Schedule] = {
            key: schedule(value) for key, value in given.items() if is_schedule(kind, key, value)
        }
        first = {key: _like(kind, key, run(1)) for key, run in self.schedules.items()}
        self.kind, self.made = kind, kind(**(given | first))

    def at(self, step: int) -> Any:
        """The method with the numbers of ``step``."""
        for key, run in self.schedules.items():
            setattr(self.made, key, _like(self.kind, key, run(step)))
        return self.made


def method_class(slot: str, name: str, settings: Mapping[str, Any]) -> Any:
    """The dataclass of a method. Raises: UnknownName."""
    return find(slot, str(settings.get(TARGET) or name), KNOWN[slot])


def algorithm(name: str) -> Algorithm:
    """What ``algo.name`` means. Raises: UnknownName."""
    if not on_turns(name):
        return ALGORITHMS[name]
    kind = method_class(ALGO, name, {})
    return Algorithm(ON_TURNS, "values" in kind.needs, kind.compares, kind.grain)


def estimator_of(node: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The node ``algo`` as those of the slots are: an estimator's settings by its name; nothing where it is not over turns."""
    name = str(node.get("name"))
    return {name: {key: node[key] for key in node if key not in OF_NODE}} if node and on_turns(name) else {}


def is_schedule(kind: Any, key: str, value: Any) -> bool:
    """A mapping where the method wants a number."""
    return isinstance(value, Mapping) and isinstance(_default(kind, key), (int, float))


def _like(kind: Any, key: str, value: float) -> float:
    """Rounded where the setting counts something."""
    return round(value) if type(_default(kind, key)) is int else value


def _default(kind: Any, key: str) -> Any:
    return next((item.default for item in dataclasses.fields(kind) if item.name == key), None)


class Chosen:
    """All methods of a run.

    Args:
        config: the slots' nodes, ``{"credit": {"gigpo": {...}}, ...}``, in the order in which they are to act, and ``algo``.
    """

    def __init__(self, config: Mapping[str, Mapping[str, Mapping[str, Any] | None]]) -> None:
        nodes = {slot: config.get(slot) or {} for slot in SLOTS} | {ALGO: estimator_of(config.get(ALGO) or {})}
        self._methods = {
            slot: {name: Method(slot, name, settings or {}) for name, settings in node.items()}
            for slot, node in nodes.items()
        }

    def of(self, slot: str, step: int) -> dict[str, Any]:
        """The methods of one slot by name, in their order, with the numbers of ``step``."""
        return {name: method.at(step) for name, method in self._methods[slot].items()}

    def __bool__(self) -> bool:
        return any(self._methods.values())

    def needs(self) -> frozenset[str]:
        """What of the policy has to be known: ``entropy``, ``values``."""
        return frozenset(need for method in self._made() for need in getattr(method, "needs", ()))

    def reads(self) -> frozenset[str]:
        """Names of the rewards that they read, besides the trained one."""
        return frozenset(name for method in self._made() for name in getattr(method, "reads", ())) - {TRAINED}

    def _made(self) -> list[Any]:
        return [method.made for methods in self._methods.values() for method in methods.values()]

    def state(self) -> dict[str, Any]:
        """Of every method that has one, by ``slot/name``."""
        return {name: method.made.state() for name, method in self._stateful()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Raises: KeyError: the state lacks a method of this run."""
        for name, method in self._stateful():
            method.made.load(state[name])

    def _stateful(self) -> list[tuple[str, Method]]:
        named = [(f"{slot}/{name}", method) for slot, found in self._methods.items() for name, method in found.items()]
        return [(name, method) for name, method in named if hasattr(method.made, "state")]
