"""bfcl-eval's services, as instances of one episode."""

from __future__ import annotations

import copy
import importlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bfcl_eval.constants.executable_backend_config import CLASS_FILE_PATH_MAPPING, STATELESS_CLASSES
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import response_checker, state_checker

from turngrid.envs.bfcl.functions import Written
from turngrid.envs.types import Call, InvalidAction

_LARGEST = 10**12  # of a number among the arguments
_POWERS = {"exponent", "precision", "decimal_places"}
_LARGEST_POWER = 1000  # larger ones take minutes or gigabytes
_COPIES = 10  # of directories and files in an episode: each may double the tree, and what find lists


class Services:
    """Services in the state of a scenario; no other episode sees them."""

    def __init__(self, names: Sequence[str], scenario: Mapping[str, Any], long_context: bool) -> None:
        self._instances = {name: _instance(name, scenario.get(name, {}), long_context) for name in names}
        self._copies = 0

    def run(self, call: Call) -> str:
        """Run a call and return its result as bfcl-eval shows it.

        The caller has checked that it is one of the game's functions.

        Raises:
            InvalidAction: a number is too large, or there are too many copies.
        """
        _check_numbers(call.arguments)
        self._copies += call.name == "cp"
        if call.name == "cp" and self._copies > _COPIES:
            raise InvalidAction(f"cp: an episode may have {_COPIES} copies.")
        try:
            return _shown(self._method(call.name)(**copy.deepcopy(dict(call.arguments))))
        except Exception as error:  # noqa: BLE001 - as bfcl-eval: the agent reads it
            return f"Error during execution: {error}"

    def named(self, written: Written) -> Call:
        """Return a call with all its arguments by name.

        Raises:
            InvalidAction: the arguments do not fit.
        """
        try:
            method = self._method(written.name)
            bound = inspect.signature(method).bind_partial(*written.values, **written.named)
        except (AttributeError, TypeError):
            return _unbound(written)
        return Call(written.name, bound.arguments)

    def equal(self, gold: Services) -> bool:
        """Return whether all public attributes are equal."""
        return bool(state_checker(self._instances, gold._instances)["valid"])

    def _method(self, name: str) -> Callable[..., Any]:
        for instance in self._instances.values():
            if not name.startswith("_") and inspect.isfunction(getattr(type(instance), name, None)):
                method: Callable[..., Any] = getattr(instance, name)
                return method
        raise AttributeError(name)


def contains(results: list[str], gold: list[str]) -> bool:
    """Return whether each of the gold results is among the results, as often."""
    return bool(response_checker(results, gold, 0)["valid"])


def _instance(name: str, scenario: Mapping[str, Any], long_context: bool) -> Any:
    service = getattr(importlib.import_module(CLASS_FILE_PATH_MAPPING[name]), name)()
    if name not in STATELESS_CLASSES:
        service._load_scenario(copy.deepcopy(dict(scenario)), long_context=long_context)
    return service


def _unbound(written: Written) -> Call:
    """Return the call if it has arguments by name only; the check against its schema answers."""
    if written.values:
        raise InvalidAction(f"The arguments of {written.name[:40]} do not fit: give them by name.")
    return Call(written.name, written.named)


def _check_numbers(value: Any, name: str = "") -> None:
    if isinstance(value, Mapping):
        for key, part in value.items():
            _check_numbers(part, str(key))
    elif isinstance(value, list):
        for part in value:
            _check_numbers(part, name)
    elif isinstance(value, int | float):
        most = _LARGEST_POWER if name in _POWERS else _LARGEST
        if abs(value) > most:
            raise InvalidAction(f"{name}: numbers may be at most {most:g} here.")


def _shown(result: Any) -> str:
    if isinstance(result, dict):
        try:
            return json.dumps(result)
        except (TypeError, ValueError):
            return str(result)
    return str(result)
