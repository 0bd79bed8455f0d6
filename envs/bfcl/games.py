"""The games: bfcl-eval's multi-turn entries, one file each."""

import functools
import itertools
import json
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from bfcl_eval.constants.executable_backend_config import MULTI_TURN_FUNC_DOC_FILE_MAPPING

from turngrid.envs.bfcl.functions import END_TURN, function_of, python_calls
from turngrid.envs.bfcl.services import Services
from turngrid.envs.environment import GameRecord
from turngrid.envs.text_env import MAX_CALLS
from turngrid.envs.types import Call, EnvError

MORE_FUNCTIONS = "I have updated some more functions you can choose from. What about now?"  # BFCL's words
_GOAL = "In each turn, do what the user asks by calls of these functions, then call end_turn."
Entry = dict[str, Any]


def made(category: str, number: int, folder: Path) -> GameRecord:
    """Write a scenario's game of a category."""
    game = _game(category, number)
    (folder / "game.json").write_text(json.dumps(game))
    calls = [[str(Call(**call)) for call in turn] for turn in game["gold"]]
    plan = [action for turn in calls for action in (*map("\n".join, _batched(turn)), str(Call(END_TURN.name)))]
    goal = "\n".join([_GOAL, *(function_of(document).described for document in game["functions"])])
    return GameRecord("game.json", goal=goal, expert_plan=tuple(plan), max_score=len(game["users"]))


def _batched(calls: list[str]) -> list[list[str]]:
    return [calls[start : start + MAX_CALLS] for start in range(0, len(calls), MAX_CALLS)]


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
