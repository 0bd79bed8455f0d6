"""A scenario of BFCL: bfcl-eval's services and entries, and a user whose words are fixed."""

import copy
import functools
import importlib
import inspect
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from bfcl_eval.constants.executable_backend_config import (
    CLASS_FILE_PATH_MAPPING,
    MULTI_TURN_FUNC_DOC_FILE_MAPPING,
    STATELESS_CLASSES,
)
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import response_checker, state_checker

from turngrid.envs.bfcl.functions import END_TURN, Written, function_of, python_calls
from turngrid.envs.environment import GameRecord
from turngrid.envs.functions import called
from turngrid.envs.text_env import MAX_CALLS, RawStep, TextEnv, accepted_json
from turngrid.envs.types import Call, EnvError, InvalidAction, Observation, TaskRef

_LARGEST = 10**12  # of a number among the arguments
_POWERS = {"exponent", "precision", "decimal_places"}
_LARGEST_POWER = 1000  # larger ones take minutes or gigabytes
_COPIES = 10  # of directories and files in an episode: each may double the tree, and what find lists
MORE_FUNCTIONS = "I have updated some more functions you can choose from. What about now?"  # BFCL's words
_GOAL = "In each turn, do what the user asks by calls of these functions, then call end_turn."
Entry = dict[str, Any]
_LONGEST = 20_000  # characters of calls in Python's syntax
FAILED = "The user's request is not fulfilled."
DONE = "The user has no more requests."


class Services:
    """Services in the state of a scenario; no other episode sees them."""

    def __init__(self, names: Sequence[str], scenario: Mapping[str, Any], long_context: bool) -> None:
        self._instances = {name: _instance(name, scenario.get(name, {}), long_context) for name in names}
        self._copies = 0

    def run(self, call: Call) -> str:
        """Run a call and return its result as bfcl-eval shows it.

        The caller has checked that it is one of the game's functions.

        Raises:
            InvalidAction: as ``check``.
        """
        self.check([call])
        self._copies += call.name == "cp"
        try:
            return _shown(self._method(call.name)(**copy.deepcopy(dict(call.arguments))))
        except Exception as error:  # noqa: BLE001 - as bfcl-eval: the agent reads it
            return f"Error during execution: {error}"

    def check(self, calls: Sequence[Call]) -> None:
        """Raise InvalidAction if a number is too large, or there are too many copies."""
        for call in calls:
            _check_numbers(call.arguments)
        copies = sum(call.name == "cp" for call in calls)
        if copies and self._copies + copies > _COPIES:
            raise InvalidAction(f"cp: an episode may have {_COPIES} copies.")

    def named(self, written: Written) -> Call:
        """Return a call with all its arguments by name.

        Raises:
            InvalidAction: the arguments do not fit.
        """
        try:
            method = self._method(written.name)
            bound = inspect.signature(method).bind_partial(*written.values, **written.named)
        except (AttributeError, TypeError):  # the check against the function's schema answers
            if written.values:
                raise InvalidAction(f"The arguments of {written.name[:40]} do not fit: give them by name.") from None
            return Call(written.name, written.named)
        return Call(written.name, bound.arguments)

    def equal(self, gold: Self) -> bool:
        """Return whether all public attributes are equal."""
        return bool(state_checker(self._instances, gold._instances)["valid"])

    def _method(self, name: str) -> Callable[..., Any]:
        for instance in self._instances.values():
            if not name.startswith("_") and inspect.isfunction(getattr(type(instance), name, None)):
                method: Callable[..., Any] = getattr(instance, name)
                return method
        raise AttributeError(name)


def _instance(name: str, scenario: Mapping[str, Any], long_context: bool) -> Any:
    service = getattr(importlib.import_module(CLASS_FILE_PATH_MAPPING[name]), name)()
    if name not in STATELESS_CLASSES:
        service._load_scenario(copy.deepcopy(dict(scenario)), long_context=long_context)
    return service


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


def write_game(category: str, number: int, folder: Path) -> GameRecord:
    game = _game(category, number)
    plan = []
    for turn in game["gold"]:
        calls = [str(Call(**call)) for call in turn]
        plan += ["\n".join(calls[start : start + MAX_CALLS]) for start in range(0, len(calls), MAX_CALLS)]
        plan.append(str(Call(END_TURN.name)))
    goal = "\n".join([_GOAL, *(function_of(document).described for document in game["functions"])])
    return GameRecord.written(folder, game, goal=goal, expert_plan=tuple(plan), max_score=len(game["users"]))


def _game(category: str, number: int) -> Entry:
    entry, answer = (_entry(name, category, number) for name in ("", "possible_answer/"))
    later = {turn: _functions(entry, names) for turn, names in entry.get("missed_function", {}).items()}
    hidden = {*(entry.get("excluded_function") or ()), *itertools.chain(*entry.get("missed_function", {}).values())}
    shown = [document["name"] for document in _functions(entry) if document["name"] not in hidden]
    game = {
        "services": entry["involved_classes"],
        "scenario": entry["initial_config"],
        "long_context": category == "long_context",
        "functions": _functions(entry, shown),
        "later": later,
        "users": [turn[0]["content"] if turn else MORE_FUNCTIONS for turn in entry["question"]],
    }
    return {**game, "gold": [_gold(game, turn) for turn in answer["ground_truth"]]}


def _gold(game: Entry, turn: list[str]) -> list[Entry]:
    """Return a turn's gold calls, which bfcl-eval has in Python's syntax."""
    services = Services(game["services"], game["scenario"], game["long_context"])
    calls = [services.named(written) for text in turn for written in python_calls(text)]
    return [{"name": call.name, "arguments": dict(call.arguments)} for call in calls]


def _functions(entry: Entry, names: list[str] | None = None) -> list[Entry]:
    documents = itertools.chain(*map(_documents, entry["involved_classes"]))
    return [document for document in documents if names is None or document["name"] in names]


def _entry(folder: str, category: str, number: int) -> Entry:
    wanted = f"multi_turn_{category}_{number}"
    return next(entry for entry in _lines(f"{folder}BFCL_v4_multi_turn_{category}.json") if entry["id"] == wanted)


def _documents(service: str) -> list[Entry]:
    documents = _lines(f"multi_turn_func_doc/{MULTI_TURN_FUNC_DOC_FILE_MAPPING[service]}")
    return [{key: document[key] for key in ("name", "description", "parameters")} for document in documents]


@functools.cache
def _lines(name: str) -> list[Entry]:
    file = files("bfcl_eval") / "data" / name
    if not file.is_file():
        raise EnvError(f"bfcl-eval {version('bfcl-eval')} has no data/{name}; its version 2026.3.23 has")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


class BfclEnv(TextEnv):
    """One scenario at a time; a point for each turn of the user that ends as bfcl-eval demands."""

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        self._game = accepted_json(task)
        setting = self._game["services"], self._game["scenario"], self._game["long_context"]
        self._services, self._gold = Services(*setting), Services(*setting)
        self._results: list[str] = []
        self._turn, self._has_called = 0, False
        self.functions = (END_TURN, *map(function_of, self._game["functions"]))
        return self.observe_message(self._user())

    def clean_action(self, action: str) -> str:
        return action[:_LONGEST].strip()

    def step_game(self, command: str) -> RawStep:
        """Run calls in Python's syntax; all are checked before the first one runs."""
        try:
            written = python_calls(command)
        except InvalidAction:
            if self._settings.end_by_words:
                return self._end_turn()
            raise
        if len(written) > MAX_CALLS:
            raise InvalidAction(f"An answer may have {MAX_CALLS} calls.")
        calls = [self._services.named(call) for call in written]
        for call in calls:
            called(self.functions, call)
        self._services.check(calls)
        texts = []
        for call in calls:
            step = self.call_game(call)
            texts.append(step.observation.text)
            if step.won or step.lost:
                break
        return RawStep(self.observe_message("\n".join(texts)), step.score, won=step.won, lost=step.lost)

    def call_game(self, call: Call) -> RawStep:
        if call.name == END_TURN.name:
            return self._end_turn()
        self._results.append(self._services.run(call))
        self._has_called = True
        return RawStep(self.observe_message(self._results[-1]), self._turn)

    def _end_turn(self) -> RawStep:
        """Compare with the gold calls of the turn; after a failed turn no later one can count."""
        if not self._is_fulfilled():
            return RawStep(self.observe_message(FAILED), self._turn, lost=True)
        self._turn, self._has_called = self._turn + 1, False
        if self._turn == len(self._game["users"]):
            return RawStep(self.observe_message(DONE), self._turn, won=True)
        return RawStep(self.observe_message(self._user()), self._turn)

    def _is_fulfilled(self) -> bool:
        """Return bfcl-eval's verdict; a turn without gold calls is always fulfilled."""
        gold = [self._gold.run(Call(**call)) for call in self._game["gold"][self._turn]]
        if not gold:
            return True
        answered = bool(response_checker(self._results, gold, 0)["valid"])  # whether it has every gold result, as often
        return self._has_called and self._services.equal(self._gold) and answered

    def _user(self) -> str:
        """Return the user's words, after the functions that come with them."""
        more = [function_of(document) for document in self._game["later"].get(str(self._turn), ())]
        self.functions = (*self.functions, *more)
        new = [f"New function: {function.described}" for function in more]
        return "\n".join([*new, f"User: {self._game['users'][self._turn]}"])
