"""Game files in the official form, made here or copied from the official data.

A file is JSON with pddl_domain, grammar, pddl_problem, solvable and walkthrough.
"""

import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turngrid.envs.alfworld import generate, goal, official, problem, searcher, wheel
from turngrid.envs.alfworld.engine import Engine
from turngrid.envs.alfworld.kinds import type_of_seed
from turngrid.envs.alfworld.official import FILE
from turngrid.envs.environment import GameRecord, Params, Rejected

_TEXTS = ("pddl_domain", "grammar", "pddl_problem")
_engine = functools.cache(Engine)  # of this process, for all games that it makes


def generated(params: Params, seed: int, folder: Path) -> GameRecord:
    """Make the game that a seed draws.

    Raises:
        Rejected: no game was drawn, or the searcher does not win it.
    """
    task_type = type_of_seed(params["types"], seed)
    draft = generate.draw(task_type, params["floor_plans"] == "unseen", seed)
    grammar = wheel.grammar().replace("UNKNOWN GOAL", draft.words)
    text = problem.write(draft, f"plan_trial_S{seed:08d}")
    data: dict[str, Any] = {"pddl_domain": wheel.domain(), "grammar": grammar, "pddl_problem": text}
    expert_plan = problem.plan(draft)
    engine = _loaded(data)
    file = folder / FILE
    _write(file, {**data, "solvable": True, "walkthrough": list(expert_plan)})
    if "expert" in params:
        expert_plan = searcher.plan(engine, params["limit"])
    return _record(file, data, engine, expert_plan)


def from_data(params: Params, file: Path, folder: Path) -> GameRecord:
    """Copy an official game. A game of the old kind gets the domain and grammar of the package.

    Raises:
        Rejected: the game is broken, unsolvable, of another type than its folder says, or lacks the
            plan that ``params`` ask for.
    """
    data = official.modern(read(file))
    _, asked = goal_of(data)
    if asked.task_type != official.type_of(file):
        raise Rejected(f"its folder says {official.type_of(file)}, its goal {asked.task_type}")
    engine = _loaded(data)
    expert_plan = _own_plan(data, engine)
    if not expert_plan and data.get("solvable") is not True:
        raise Rejected("marked unsolvable" if data.get("solvable") is False else "not marked as solvable")
    if params["needs_plan"] and params["expert"] == "searcher":
        expert_plan = searcher.plan(engine, params["limit"])
    elif params["needs_plan"] and not expert_plan:
        raise Rejected("no expert plan; use env.expert=searcher")
    copy = folder / FILE
    _write(copy, {**data, "walkthrough": list(expert_plan) or None})
    return _record(copy, data, engine, expert_plan)


def read(file: Path) -> dict[str, Any]:
    """Return the content of a game file.

    Raises:
        Rejected: the file is missing, no JSON, or lacks a part.
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


def goal_of(data: Mapping[str, Any]) -> tuple[goal.Expression, goal.Goal]:
    """Return a game's problem and goal.

    Raises:
        Rejected: the problem cannot be read, or its goal is of none of the six types.
    """
    try:
        parsed = goal.read(data["pddl_problem"])
        return parsed, goal.parse(parsed)
    except ValueError as error:
        raise Rejected(str(error)) from error


def wins(engine: Engine, expert_plan: tuple[str, ...]) -> bool:
    """Play a plan; return whether all commands apply and the last one wins, none before."""
    engine.reset()
    for command in expert_plan[:-1]:
        if engine.step(command) is None or engine.won:
            return False
    return bool(expert_plan) and engine.step(expert_plan[-1]) is not None and engine.won


def _loaded(data: Mapping[str, Any]) -> Engine:
    engine = _engine()
    try:
        engine.load(data)
        engine.reset()
    except Exception as error:  # parsers and translator raise any exception on a broken game
        raise Rejected(f"the engine cannot load it: {type(error).__name__}") from error
    return engine


def _own_plan(data: Mapping[str, Any], engine: Engine) -> tuple[str, ...]:
    """Return the file's plan if it wins, else ()."""
    commands = data.get("walkthrough")
    if not isinstance(commands, list) or not all(isinstance(command, str) for command in commands):
        return ()
    return tuple(commands) if commands and wins(engine, tuple(commands)) else ()


def _write(file: Path, data: Mapping[str, Any]) -> None:
    """Write a game; the same content gives the same bytes."""
    file.write_text(json.dumps(dict(data), sort_keys=True))


def _record(file: Path, data: Mapping[str, Any], engine: Engine, expert_plan: tuple[str, ...]) -> GameRecord:
    engine.reset()
    parsed, asked = goal_of(data)
    todo = asked.total - asked.met(engine.facts)
    if todo < 1:
        raise Rejected("the game is won before it starts")
    return GameRecord(
        file.name,
        goal=engine.task,
        expert_plan=expert_plan,
        fingerprint=fingerprint(parsed, asked),
        max_score=float(todo),
    )


def fingerprint(parsed: goal.Expression, asked: goal.Goal) -> str:
    """Return sha256 over the goal and the initial places, by receptacle names and thing types.

    Games that differ only in coordinates, the task's wording or the numbers of equal things have
    the same fingerprint.
    """
    facts = goal.initial_facts(parsed)
    shown = goal.demangled({word for fact in facts for word in fact[1:]})
    kinds = {fact[1]: fact[2] for fact in facts if fact[0] == "objecttype"}
    lines = sorted(
        " ".join((fact[0], *(kinds.get(word) or shown[word].strip() for word in fact[1:])))
        for fact in facts
        if fact[0] in ("receptacletype", "inreceptacle", "isclean", "ishot", "iscool", "istoggled", "opened")
    )
    wanted = f"{asked.task_type} {asked.target} {asked.receptacle} {asked.lamp}"
    return hashlib.sha256("\n".join([wanted, *lines]).encode()).hexdigest()
