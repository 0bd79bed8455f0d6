"""The methods that a run's config names, with their settings at each step, and their state."""

from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from omegaconf import OmegaConf

from turngrid.algorithms.contexts import Asks
from turngrid.algorithms.registry import (
    ALGO,
    ALGORITHMS,
    ESTIMATORS,
    ON_TURNS,
    SLOTS,
    Algorithm,
    base_of,
    on_turns,
    words,
)
from turngrid.algorithms.schedules import Schedule, schedule
from turngrid.envs.extensions import find
from turngrid.rewards.reward import TRAINED

TARGET = "target"  # key of a method's node: ``module:Name`` of a class without an entry point
OF_NODE = ("name", "state")  # keys of the node ``algo`` that are no settings of an estimator


def slots_of(config: Mapping[str, Any], slots: Iterable[str] = (*SLOTS, ALGO)) -> dict[str, Any]:
    """Return the nodes of these slots as plain settings, for ``Chosen``."""
    chosen = {*config}  # OmegaConf is slow to report a missing key
    nodes = {slot: config.get(slot) if slot in chosen else None for slot in slots}
    return {slot: OmegaConf.to_container(node, resolve=True) if node else {} for slot, node in nodes.items()}


class Scheduled:
    """One method with its settings, some of which may follow a schedule.

    Raises:
        ValueError: there is no such method, or it does not accept these settings.
    """

    def __init__(self, slot: str, name: str, settings: Mapping[str, Any]) -> None:
        self.cls = method_class(slot, name, settings)
        self._settings = {key: value for key, value in settings.items() if key != TARGET}
        self.schedules: dict[str, Schedule] = {
            key: schedule(value) for key, value in self._settings.items() if is_schedule(self.cls, key, value)
        }
        self.current = self.new(1)

    def new(self, step: int) -> Any:
        return self.cls(**(self._settings | self._numbers(step)))

    def _numbers(self, step: int) -> dict[str, float]:
        return {key: _like(self.cls, key, run(step)) for key, run in self.schedules.items()}

    def at(self, step: int) -> Any:
        """Return the method with the values that its schedules have at ``step``."""
        for key, number in self._numbers(step).items():
            setattr(self.current, key, number)
        return self.current


def method_class(slot: str, name: str, settings: Mapping[str, Any]) -> Any:
    """Return the dataclass of a method; raise UnknownName if there is none."""
    if slot == ALGO:
        return find(ALGO, base_of(name), {**dict.fromkeys(words(), ""), **ESTIMATORS})
    return find(slot, str(settings.get(TARGET) or name), SLOTS[slot])


def algorithm(word: str) -> Algorithm:
    """Return what the trainer must know of an algorithm, by the value of ``algo.name``.

    Raises:
        UnknownName: there is no such algorithm.
    """
    if not on_turns(word):
        return ALGORITHMS[base_of(word)]
    cls = method_class(ALGO, word, {})
    return Algorithm(word, ON_TURNS, cls.grain, cls.needs, getattr(cls, "requires", frozenset()))


def estimator_of(node: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the settings of the estimator over turns in a node ``algo`` by its name, or {}."""
    name = str(node.get("name"))
    return {name: {key: node[key] for key in node if key not in OF_NODE}} if node and on_turns(name) else {}


def is_schedule(cls: Any, key: str, value: Any) -> bool:
    """Return whether a value is a schedule: a mapping for a setting that is a number or a bool."""
    return isinstance(value, Mapping) and _number(cls, key) is not None


def _like(cls: Any, key: str, value: float) -> float:
    """Convert a schedule's number to the setting's type."""
    wanted = _number(cls, key)
    if wanted is bool and value not in (0, 1):
        raise ValueError(f"{key}: the schedule gives {value:g}; use 0 or 1")
    return bool(value) if wanted is bool else round(value) if wanted is int else value


def _number(cls: Any, key: str) -> type | None:
    """Return bool, int or float by the setting's annotation; None: it is no number."""
    hint = get_type_hints(cls).get(key)
    either = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return next((number for number in (bool, int, float) if number in either), None)


class Chosen:
    """All methods of a run.

    Args:
        config: the slots' nodes, ``{"credit": {"gigpo": {...}}, ...}``, each in the order in which
            they act, and ``algo``.
    """

    def __init__(self, config: Mapping[str, Mapping[str, Mapping[str, Any] | None]]) -> None:
        nodes = {slot: config.get(slot) or {} for slot in SLOTS} | {ALGO: estimator_of(config.get(ALGO) or {})}
        self._methods = {
            slot: {name: Scheduled(slot, name, settings or {}) for name, settings in node.items()}
            for slot, node in nodes.items()
        }
        self._all = {f"{slot}/{name}": method for slot, own in self._methods.items() for name, method in own.items()}

    def of(self, slot: str, step: int) -> dict[str, Any]:
        """Return the methods of one slot by name, in their order, with the settings of ``step``."""
        return {name: method.at(step) for name, method in self._methods[slot].items()}

    def __bool__(self) -> bool:
        return bool(self._all)

    def needs(self) -> frozenset[str]:
        """Return the inputs from models that methods need (``declared.Method``)."""
        return self._declared("needs")

    def asking(self, step: int = 1) -> dict[str, Asks]:
        """Return the methods with contexts by ``slot/name``, with the settings of ``step``."""
        return {name: method.at(step) for name, method in self._all.items() if hasattr(method.current, "contexts")}

    def heads(self) -> int:
        """Return the number of the critic's heads."""
        return max((getattr(method.current, "heads", 1) for method in self._all.values()), default=1)

    def reads(self) -> frozenset[str]:
        """Return the names of the rewards that methods read, besides the trained one."""
        return self._declared("reads") - {TRAINED}

    def _declared(self, what: str) -> frozenset[str]:
        return frozenset(name for method in self._all.values() for name in getattr(method.current, what, ()))

    def of_length(self) -> list[str]:
        """Return the settings that are null and so follow from the run's number of steps."""
        return [
            f"{name.replace('/', '.')}.{key}"
            for name, method in self._all.items()
            for key in getattr(method.current, "of_length", ())
            if getattr(method.current, key) is None
        ]

    def check_schedules(self, steps: int) -> None:
        """Check that schedules stay in range over the whole run.

        Raises:
            ValueError: a schedule leaves its setting's range before the run ends.
        """
        for name, method in self._all.items():
            for step in range(1, steps + 1) if method.schedules else ():
                try:
                    method.new(step)
                except ValueError as error:
                    schedules = " and ".join(method.schedules)
                    where = f"{name.replace('/', '=')}: at step {step} of the schedule of {schedules}"
                    raise ValueError(f"{where}: {error}") from error

    def in_rollout(self, step: int) -> dict[str, Any]:
        """Return the methods by ``slot/name`` whose state is read where episodes are sampled."""
        return {name: one.at(step) for name, one in self._all.items() if getattr(one.current, "in_rollout", False)}

    def state(self) -> dict[str, Any]:
        """Return the state of every method that has one, by ``slot/name``."""
        return {name: method.current.state() for name, method in self._all.items() if hasattr(method.current, "state")}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore the methods' state; raise KeyError if it lacks a method of this run."""
        for name, method in self._all.items():
            if hasattr(method.current, "state"):
                method.current.load(state[name])
