"""Making one game: drawn or taken from the official data, then played to a win before it is accepted."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envs.alfworld import experts, game, generate, official, pddl, plan, translate, wheel
from envs.alfworld.engine import Engine
from envs.alfworld.experts import SEARCHER
from envs.alfworld.kinds import type_of_seed
from envs.alfworld.official import FILE
from envs.environment import GameRecord, Params, Rejected


@functools.cache
def _engine() -> Engine:
    """One a process, for every game that is made."""
    return Engine()


def generated(params: Params, seed: int, folder: Path) -> GameRecord:
    """The game that this seed draws.

    Raises:
        Rejected: no game, or its maker's plan does not win it.
    """
    task_type = type_of_seed(params["types"], seed)
    draft = generate.draw(task_type, params["floor_plans"] == "unseen", seed)
    grammar = wheel.grammar().replace("UNKNOWN GOAL", draft.words)
    problem = pddl.write(draft, f"plan_trial_S{seed:08d}")
    data: dict[str, Any] = {"pddl_domain": wheel.domain(), "grammar": grammar, "pddl_problem": problem}
    expert_plan = plan.commands(draft)
    engine = _loaded(data)
    if not wins(engine, expert_plan):
        raise Rejected("the expert plan does not win")
    file = folder / FILE
    game.write(file, {**data, "solvable": True, "walkthrough": list(expert_plan)})
    if "expert" in params:
        expert_plan = _asked_for(params["expert"], params["limit"], data, engine, seed)
    engine.reset()
    translate.save(data["pddl_domain"], data["pddl_problem"], folder)
    return game.record(file, data, engine, expert_plan)


def from_data(params: Params, file: Path, seed: int, folder: Path) -> GameRecord:
    """An official game, brought to the shipped domain and grammar where it is of the old kind.

    Raises:
        Rejected: broken, unsolvable, of another kind than its folder says, or without the plan that was asked for.
    """
    data = official.modern(game.read(file))
    _, asked = game.problem_of(data)
    if asked.task_type != official.type_of(file):
        raise Rejected(f"its folder says {official.type_of(file)}, its goal {asked.task_type}")
    engine = _loaded(data)
    expert_plan = _expert_plan(data, engine)
    if not expert_plan and data.get("solvable") is not True:
        raise Rejected("marked unsolvable" if data.get("solvable") is False else "nobody says that it can be solved")
    if params["needs_plan"] and (params["expert"] == SEARCHER or not expert_plan):
        expert_plan = _asked_for(params["expert"], params["limit"], data, engine, seed)
    engine.reset()
    copy = folder / FILE
    game.write(copy, {**data, "walkthrough": list(expert_plan) or None})
    translate.save(data["pddl_domain"], data["pddl_problem"], folder)
    return game.record(copy, data, engine, expert_plan)


def _expert_plan(data: Mapping[str, Any], engine: Engine) -> tuple[str, ...]:
    """The file's own, if it wins."""
    told = data.get("walkthrough")
    if not isinstance(told, list) or not all(isinstance(command, str) for command in told):
        return ()
    return tuple(told) if told and wins(engine, tuple(told)) else ()


def _asked_for(expert: str, limit: int, data: Mapping[str, Any], engine: Engine, seed: int) -> tuple[str, ...]:
    if expert == "plan":
        raise Rejected("no expert plan (env.expert=searcher, planner or handcoded would make one)")
    found = tuple(experts.plan(expert, engine, game.problem_of(data)[1], seed, limit))
    if not found or not wins(engine, found):
        raise Rejected(f"the {expert} expert did not win within {limit} commands")
    return found


def wins(engine: Engine, expert_plan: tuple[str, ...]) -> bool:
    """Every command applies, and the last one wins, not one before."""
    engine.reset()
    for command in expert_plan[:-1]:
        if engine.step(command) is None or engine.won:
            return False
    return bool(expert_plan) and engine.step(expert_plan[-1]) is not None and engine.won


def _loaded(data: Mapping[str, Any]) -> Engine:
    """Raises: Rejected where grammar or PDDL cannot be read."""
    engine = _engine()
    try:
        engine.load(game.text_of(data))
        engine.reset()
    except Exception as error:  # parsers and translator raise whatever they like on a broken game
        engine.forget()
        raise Rejected(f"the engine cannot load it: {type(error).__name__}") from error
    return engine
