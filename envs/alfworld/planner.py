"""TextWorld's planner in a process of its own: it may search for minutes, and it cannot be told to stop."""

from __future__ import annotations

import contextlib
import multiprocessing
import resource
import signal
from multiprocessing.connection import Connection

from envs.alfworld.engine import Engine
from envs.environment import Rejected
from envs.parent import die_with_parent

PROCESSOR_S = 30


def plan(engine: Engine) -> list[str]:
    """``engine.plan()``, within ``PROCESSOR_S`` seconds of processor time, which differ less from one day to another than
    those of the clock.

    Raises:
        Rejected: it took longer, or failed.
    """
    processes = multiprocessing.get_context("fork")  # the game is loaded here already
    answers, answer = processes.Pipe(duplex=False)
    child = processes.Process(target=_plan, args=(engine, answer), daemon=True)
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


def _plan(engine: Engine, answer: Connection) -> None:
    die_with_parent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_S, PROCESSOR_S + 1))
    answer.send(engine.plan())
