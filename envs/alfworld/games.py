"""Game files in the official form, made here or copied from the official data.

A file is JSON with pddl_domain, grammar, pddl_problem, solvable and walkthrough.
"""

import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turngrid.envs.alfworld import generate, official, problem, searcher, wheel
from turngrid.envs.alfworld.env import Engine
from turngrid.envs.alfworld.goal import Goal, wanted
from turngrid.envs.alfworld.kinds import LIGHT, type_of_seed
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
    file.write_text(json.dumps({**data, "solvable": True, "walkthrough": list(expert_plan)}, sort_keys=True))
    if "expert" in params:
        expert_plan = searcher.plan(engine, params["limit"])
    return _record(file, engine, expert_plan)


def from_data(params: Params, file: Path, folder: Path) -> GameRecord:
    """Copy an official game. A game of the old kind gets the domain and grammar of the package.

    Raises:
        Rejected: the game is broken, unsolvable, of another type than its folder says, or lacks the
            plan that ``params`` ask for.
    """
    data = official.modern(read(file))
    engine = _loaded(data)
    goal = wanted(engine.task)
    if goal.task_type != official.type_of(file):
        raise Rejected(f"its folder says {official.type_of(file)}, its task {goal.task_type}")
    expert_plan = _own_plan(data, engine)
    if not expert_plan and data.get("solvable") is not True:
        raise Rejected("marked unsolvable" if data.get("solvable") is False else "not marked as solvable")
    if params["needs_plan"] and params["expert"] == "searcher":
        expert_plan = searcher.plan(engine, params["limit"])
    elif params["needs_plan"] and not expert_plan:
        raise Rejected("no expert plan; use env.expert=searcher")
    copy = folder / FILE
    copy.write_text(json.dumps({**data, "walkthrough": list(expert_plan) or None}, sort_keys=True))
    return _record(copy, engine, expert_plan)


def read(file: Path) -> dict[str, Any]:
    """Return the content of a game file.

    Raises:
        Rejected: the file cannot be read, is no JSON, or lacks a part.
    """
    try:
        data = json.loads(file.read_text())
    except OSError as error:
        raise Rejected(f"the game file cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Rejected("the game file is not JSON: truncated or corrupt") from error
    if not isinstance(data, dict):
        raise Rejected("the game file is not a JSON object")
    for key in _TEXTS:
        if not isinstance(data.get(key), str) or not data[key].strip():
            raise Rejected(f"the game file has no {key}")
    return data


def _loaded(data: Mapping[str, Any]) -> Engine:
    engine = _engine()
    try:
        engine.load(data)
        engine.reset()
    except Exception as error:  # parsers and translator raise any exception on a broken game
        raise Rejected(f"the engine cannot load it: {type(error).__name__}") from error
    return engine


def _own_plan(data: Mapping[str, Any], engine: Engine) -> tuple[str, ...]:
    """Return the file's plan if its last command wins, and none before; else ()."""
    commands = data.get("walkthrough")
    if not isinstance(commands, list):
        return ()
    engine.reset()
    for command in commands:
        if engine.won or engine.step(str(command)) is None:
            return ()
    return tuple(commands) if engine.won else ()


def _record(file: Path, engine: Engine, expert_plan: tuple[str, ...]) -> GameRecord:
    engine.reset()
    goal = wanted(engine.task)
    todo = goal.total - goal.met(engine.facts)
    if todo < 1:
        raise Rejected("the game is won before it starts")
    return GameRecord(
        file.name,
        goal=engine.task,
        expert_plan=expert_plan,
        fingerprint=fingerprint(engine, goal),
        max_score=float(todo),
    )


def fingerprint(engine: Engine, goal: Goal) -> str:
    """Return sha256 over the goal and the initial positions, by receptacle names and object types.

    Games that differ only in coordinates, the task's wording or the numbers of equal objects have
    the same fingerprint.
    """
    types = {obj: type_name for obj, type_name in engine.facts["objecttype"]}
    lines = sorted(
        " ".join((predicate, *(types.get(word) or engine.names[word].strip() for word in arguments)))
        for predicate in ("receptacletype", "inreceptacle", "isclean", "ishot", "iscool", "istoggled", "opened")
        for arguments in engine.facts.get(predicate, ())
    )
    # target, receptacle, lamp: the order is part of every fingerprint
    targets = ("", goal.target) if goal.task_type == LIGHT else (goal.target, "")
    words = " ".join((goal.task_type, goal.object_type, *targets))
    return hashlib.sha256("\n".join([words, *lines]).encode()).hexdigest()
