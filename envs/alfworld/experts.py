"""Experts that plan a demonstration.

``searcher`` (ours) plays from what is visible. ``planner`` is TextWorld's: it sees the whole state
and finds a short plan. ``handcoded`` is alfworld's rule-based agent, which searches, sometimes at
random; it is "not guaranteed to succeed or be optimal" in its authors' words.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import resource
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from turngrid.envs.alfworld.engine import NOTHING, Engine
from turngrid.envs.alfworld.goal import Goal
from turngrid.envs.alfworld.official import FILE
from turngrid.envs.alfworld.searcher import Searcher
from turngrid.envs.environment import Rejected
from turngrid.envs.utils.parent import die_with_parent

SEARCHER = "searcher"
PROCESSOR_S = 30  # of the planner; CPU time differs less from day to day than wall time


@dataclass(frozen=True)
class NamedFact:
    """A fact in the form that the handcoded expert reads."""

    name: str
    names: tuple[str, ...]


def plan(expert: str, engine: Engine, goal: Goal, seed: int, limit: int) -> list[str]:
    """Return at most ``limit`` commands that should win the loaded game; [] if the expert fails.

    Raises:
        Rejected: the planner takes too long, or the searcher cannot read the task's words.
    """
    introduction = engine.reset()
    if expert == SEARCHER:
        return _searched(engine, introduction, limit)
    commands = _planned(engine) if expert == "planner" else _handcoded(engine, introduction, goal, seed, limit)
    return commands if len(commands) <= limit else []


def _searched(engine: Engine, introduction: str, limit: int) -> list[str]:
    try:
        searcher = Searcher(engine.task, introduction)
    except ValueError as error:
        raise Rejected(str(error)) from error
    played: list[str] = []
    while len(played) < limit:
        played.append(searcher.act(engine.commands))
        searcher.saw(played[-1], engine.step(played[-1]) or NOTHING)
        if engine.won:
            return played
    return []


def _handcoded(engine: Engine, introduction: str, goal: Goal, seed: int, limit: int) -> list[str]:
    with tempfile.TemporaryDirectory() as folder, _drawing_from(seed):
        params: dict[str, Any] = {
            "object_target": goal.target,
            "parent_target": goal.receptacle,
            "toggle_target": goal.lamp,
        }
        params |= {"mrecep_target": "", "object_sliced": False}
        Path(folder, "traj_data.json").write_text(json.dumps({"task_type": goal.task_type, "pddl_params": params}))
        with data_folder_kept():
            from alfworld.agents.expert import HandCodedTWAgent
        agent = HandCodedTWAgent(max_steps=limit + 1)
        agent.reset(str(Path(folder, FILE)))
        agent.observe(introduction)
        try:
            return _play(engine, agent, limit)
        except Exception:  # noqa: BLE001 - it gives up by exceptions of several types
            return []


def _play(engine: Engine, agent: Any, limit: int) -> list[str]:
    """Play as alfworld's ``AlfredExpert``: a command that does not apply becomes "look"."""
    played = ["look"]
    while len(played) <= limit:
        answer = engine.step(played[-1]) or NOTHING
        if engine.won:
            return played
        state = {"feedback": answer, "admissible_commands": sorted(engine.commands), "facts": _facts(engine)}
        wanted = agent.act(state, 0, False, played[-1])
        played.append(wanted if wanted in engine.commands else "look")
    return []


def _facts(engine: Engine) -> list[NamedFact]:
    """Return the facts by the agent's names, sorted, since the expert takes the first match."""
    facts = ((name, things) for name, found in sorted(engine.facts.items()) for things in sorted(found))
    return [NamedFact(name, tuple(engine.names.get(thing, thing) for thing in things)) for name, things in facts]


@contextlib.contextmanager
def data_folder_kept() -> Iterator[None]:
    """Restore ``ALFWORLD_DATA``: alfworld sets it at import, and makes that folder."""
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
    """Seed Python's shared generator, from which the expert draws, and restore it."""
    kept = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(kept)


def _planned(engine: Engine) -> list[str]:
    """Return ``engine.plan()``, run in a separate process because it cannot be stopped otherwise.

    Raises:
        Rejected: it took more than ``PROCESSOR_S`` seconds of CPU time, or failed.
    """
    processes = multiprocessing.get_context("fork")  # the child inherits the loaded game
    answers, answer = processes.Pipe(duplex=False)
    child = processes.Process(target=_answer, args=(engine, answer), daemon=True)
    child.start()
    answer.close()
    commands = None
    with answers, contextlib.suppress(EOFError):
        commands = answers.recv()
    child.join()
    if child.exitcode == -signal.SIGXCPU:
        raise Rejected(f"the planner expert took more than {PROCESSOR_S} s of processor time")
    if commands is None:
        raise Rejected("the planner expert failed")
    return commands


def _answer(engine: Engine, answer: Connection) -> None:
    die_with_parent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_S, PROCESSOR_S + 1))
    answer.send(engine.plan())
