"""Plans for games that have none, by the experts that come with alfworld and TextWorld.

``planner`` sees the whole state and finds a short plan. ``handcoded`` is alfworld's rule-based player, which searches
as a player must; it is "not guaranteed to succeed or be optimal" in its authors' words, and draws at random at times.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from envs.alfworld import game
from envs.alfworld.engine import Engine
from envs.alfworld.goal import Goal
from envs.alfworld.official import FILE

EXPERTS = ("none", "planner", "handcoded")


def plan(expert: str, data: Mapping[str, Any], engine: Engine, goal: Goal, seed: int, limit: int) -> list[str]:
    """At most ``limit`` commands that should win the game ``engine`` has just reset; empty where the expert fails."""
    found = engine.plan() if expert == "planner" else _handcoded(data, goal, seed, limit)
    return found if len(found) <= limit else []


def _handcoded(data: Mapping[str, Any], goal: Goal, seed: int, limit: int) -> list[str]:
    env = _stock_env()
    with tempfile.TemporaryDirectory() as folder, _drawing_from(seed):
        file = Path(folder, FILE)
        game.write(file, data)
        (file.parent / "traj_data.json").write_text(json.dumps(_trajectory(goal)))
        env.load(str(file))
        return _play(env, limit)


def _play(env: Any, limit: int) -> list[str]:
    played: list[str] = []
    try:
        state = env.reset()
        while not state["won"] and len(played) < limit:
            played.append(state["extra.expert_plan"][0])
            state, _, _ = env.step(played[-1])
    except Exception:  # noqa: BLE001 - the expert gives up in several ways, plain Exception among them
        return []
    return played if state["won"] else []


def _trajectory(goal: Goal) -> dict[str, Any]:
    """What the expert reads of ALFRED's trajectory files."""
    params = {
        "object_target": goal.target,
        "parent_target": goal.receptacle,
        "toggle_target": goal.lamp,
        "mrecep_target": "",
        "object_sliced": False,
    }
    return {"task_type": goal.task_type, "pddl_params": params}


@functools.cache
def _stock_env() -> Any:
    """One a process: each new one keeps 2.5 MB of a planner library for good."""
    with data_folder_kept():
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredExpert, AlfredInfos
    import textworld
    from textworld.envs import PddlEnv

    asked = textworld.EnvInfos(won=True, admissible_commands=True, extras=["gamefile", "expert_plan"])
    return AlfredExpert(AlfredInfos(AlfredDemangler(PddlEnv(asked))))


@contextlib.contextmanager
def data_folder_kept() -> Iterator[None]:
    """alfworld makes its data folder when it is imported, and sets ``ALFWORLD_DATA``."""
    kept = os.environ.get("ALFWORLD_DATA")
    with tempfile.TemporaryDirectory() as nowhere:
        os.environ["ALFWORLD_DATA"] = nowhere
        try:
            yield
        finally:
            os.environ.pop("ALFWORLD_DATA")
            if kept is not None:
                os.environ["ALFWORLD_DATA"] = kept


@contextlib.contextmanager
def _drawing_from(seed: int) -> Iterator[None]:
    """The expert draws from Python's shared generator."""
    kept = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(kept)
