"""Game files in the official form: JSON with pddl_domain, grammar, pddl_problem, solvable and walkthrough."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envs.alfworld import goal, pddl
from envs.alfworld.engine import Engine, GameText
from envs.environment import GameRecord, Rejected

_TEXTS = ("pddl_domain", "grammar", "pddl_problem")
_INTRO, _YOUR_TASK = "-= Welcome to TextWorld, ALFRED! =-", "Your task is to: "


def text_of(data: Mapping[str, Any]) -> GameText:
    return GameText(*(data[key] for key in _TEXTS))


def read(file: Path) -> dict[str, Any]:
    """The content of a game file.

    Raises:
        Rejected: it is missing, no JSON (cut off, for one), or lacks a part; the reason says which.
    """
    try:
        data = json.loads(file.read_text())
    except FileNotFoundError as error:
        raise Rejected("the game file is missing") from error
    except ValueError as error:
        raise Rejected("the game file is not JSON: truncated or corrupt") from error
    if not isinstance(data, dict):
        raise Rejected("the game file is not a JSON object")
    for key in _TEXTS:
        if not isinstance(data.get(key), str) or not data[key].strip():
            raise Rejected(f"the game file has no {key}")
    return data


def write(file: Path, data: Mapping[str, Any]) -> None:
    """The same content gives the same bytes."""
    file.write_text(json.dumps(dict(data), sort_keys=True))


def problem_of(data: Mapping[str, Any]) -> tuple[pddl.Expression, goal.Goal]:
    """Raises: Rejected where the problem cannot be read, or asks for something else than the six types do."""
    try:
        problem = pddl.read(data["pddl_problem"])
        return problem, goal.parse(problem)
    except ValueError as error:
        raise Rejected(str(error)) from error


def record(file: Path, data: Mapping[str, Any], engine: Engine, expert_plan: tuple[str, ...]) -> GameRecord:
    """What the catalogue keeps of a game that ``engine`` has just reset.

    Raises:
        Rejected: nothing is left to do in it.
    """
    problem, asked = problem_of(data)
    todo = asked.total - asked.met(engine.facts)
    if todo < 1:
        raise Rejected("the game is won before it starts")
    return GameRecord(
        file.name, sha256(file), task_words(engine), expert_plan, fingerprint(problem, asked), float(todo)
    )


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def fingerprint(problem: pddl.Expression, asked: goal.Goal) -> str:
    """sha256 over the goal and what lies where at first, by the receptacles' names and the things' types.

    Coordinates, the wording of the task and which of two equal mugs is mug 1 make no other game.
    """
    facts = pddl.initial_facts(problem)
    shown = pddl.demangled({word for fact in facts for word in fact[1:]})
    kinds = {fact[1]: fact[2] for fact in facts if fact[0] == "objecttype"}
    lines = sorted(
        " ".join((fact[0], *(kinds.get(word) or shown[word].strip() for word in fact[1:])))
        for fact in facts
        if fact[0] in ("receptacletype", "inreceptacle", "isclean", "ishot", "iscool", "istoggled", "opened")
    )
    wanted = f"{asked.task_type} {asked.target} {asked.receptacle} {asked.lamp}"
    return hashlib.sha256("\n".join([wanted, *lines]).encode()).hexdigest()


def task_words(engine: Engine) -> str:
    """The task in alfworld's words, without "Your task is to"."""
    return engine.task.removeprefix(_YOUR_TASK).strip()


def opening(introduction: str, task: str) -> str:
    """What is seen at first: alfworld's introduction without its banner and without the task, which is shown apart."""
    parts = (part.strip() for part in introduction.split("\n\n"))
    return "\n".join(part for part in parts if part and part not in (_INTRO, task))
