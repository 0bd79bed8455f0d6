"""Who plans a demonstration.

``searcher`` (ours) plays from what is visible. The others come with alfworld and TextWorld, for games that have no plan:
``planner`` sees the whole state and finds a short plan. ``handcoded`` is alfworld's rule-based agent, which searches
as an agent must; it is "not guaranteed to succeed or be optimal" in its authors' words, and draws at random at times.
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

from envs.alfworld import game
from envs.alfworld.engine import NOTHING, Engine
from envs.alfworld.goal import Goal
from envs.alfworld.official import FILE
from envs.alfworld.searcher import Searcher
from envs.environment import Rejected
from envs.utils.parent import die_with_parent

SEARCHER = "searcher"
PROCESSOR_S = 30


@dataclass(frozen=True)
class NamedFact:
    """A fact as the handcoded expert reads it."""

    name: str
    names: tuple[str, ...]


def plan(expert: str, engine: Engine, goal: Goal, seed: int, limit: int) -> list[str]:
    """At most ``limit`` commands that should win the game ``engine`` has loaded; none where the expert fails.

    Raises:
        Rejected: the planner takes too long, or the searcher does not understand the task's words.
    """
    introduction = engine.reset()
    if expert == SEARCHER:
        return _searched(engine, introduction, limit)
    found = _planned(engine) if expert == "planner" else _handcoded(engine, introduction, goal, seed, limit)
    return found if len(found) <= limit else []


def _searched(engine: Engine, introduction: str, limit: int) -> list[str]:
    try:
        searcher = Searcher(game.task_words(engine), introduction)
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
        params = {"object_target": goal.target, "parent_target": goal.receptacle, "toggle_target": goal.lamp}
        told = {"task_type": goal.task_type, "pddl_params": {**params, "mrecep_target": "", "object_sliced": False}}
        Path(folder, "traj_data.json").write_text(json.dumps(told))
        with data_folder_kept():
            from alfworld.agents.expert import HandCodedTWAgent
        agent = HandCodedTWAgent(max_steps=limit + 1)
        agent.reset(str(Path(folder, FILE)))
        agent.observe(introduction)
        try:
            return _play(engine, agent, limit)
        except Exception:  # noqa: BLE001 - it gives up in several ways, by errors of its own among them
            return []


def _play(engine: Engine, agent: Any, limit: int) -> list[str]:
    """The loop of alfworld's ``AlfredExpert``: a command that does not apply becomes "look"."""
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
    """Sorted: the expert takes the first that fits."""
    shown = engine.names
    held = ((name, things) for name, found in sorted(engine.facts.items()) for things in sorted(found))
    return [NamedFact(name, tuple(shown.get(thing, thing) for thing in things)) for name, things in held]


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


def _planned(engine: Engine) -> list[str]:
    """``engine.plan()`` in a process of its own, since it may search for minutes and cannot be told to stop: it has ``PROCESSOR_S``
    seconds of processor time, which differ less from one day to another than those of the clock.

    Raises:
        Rejected: it took longer, or failed.
    """
    processes = multiprocessing.get_context("fork")  # the game is loaded here already
    answers, answer = processes.Pipe(duplex=False)
    child = processes.Process(target=_answer, args=(engine, answer), daemon=True)
    child.start()
    answer.close()
    found = None
    with answers, contextlib.suppress(EOFError):
        found = answers.recv()
    child.join()
    if child.exitcode == -signal.SIGXCPU:
        raise Rejected(f"the planner expert took more than {PROCESSOR_S} s of processor time")
    if found is None:
        raise Rejected("the planner expert failed")
    return found


def _answer(engine: Engine, answer: Connection) -> None:
    die_with_parent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_S, PROCESSOR_S + 1))
    answer.send(engine.plan())
