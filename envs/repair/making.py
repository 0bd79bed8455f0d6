"""From a seed to a repair task: draw bugs, run the tests, keep what they notice, play the repair to a win."""

from __future__ import annotations

import functools
import hashlib
import json
import random
from collections.abc import Mapping
from pathlib import Path

from envs.environment import GameRecord, Params, Rejected
from envs.repair import libraries
from envs.repair.accept import must_win, write
from envs.repair.drawing import LINES, Bug, difficulty, draw, one_liners, singles
from envs.repair.env import Setup
from envs.repair.grading import Options, TestRun, run_files
from envs.repair.instance import Instance
from envs.repair.libraries import SUITES, LibraryError
from envs.repair.plan import plan
from envs.repair.statement import statement
from envs.repair.workspace import Workspace
from envs.sandbox.types import Limits, Outcome

# A whole suite takes a third of a second of a processor: what takes ten times as long does not end. Wall time is for busy
# machines, on which the same seeds must give the same games.
_LIMITS = Limits(wall_s=120.0, cpu_s=4.0, memory_mib=1024)


def make(params: Params, seed: int, folder: Path, setup: Setup, name: str) -> GameRecord:
    """Make the task of a seed in ``folder``.

    Raises:
        Rejected: the tests do not notice the bug, or notice nothing else, or never end.
        LibraryError: a library's tests fail without any bug.
    """
    bug = _bug(params, seed, setup.options.mode)
    instance = instance_of(bug, setup.options.mode)
    with Workspace(instance, setup.provider_of(instance)) as workspace:
        expert_plan = plan(workspace)
    if not expert_plan:
        raise Rejected("the repair cannot be made with an agent's commands")
    record = write(instance, folder, expert_plan)
    must_win(record, folder, setup, name)
    return record


def listed(params: Params) -> tuple[Bug, ...]:
    """The candidates of a task whose games are listed: all easy repairs of a split."""
    return one_liners(tuple(params["libraries"]), params["shares"], params["split"])


def _bug(params: Params, seed: int, mode: str) -> Bug:
    if params["lines"] == "easy":
        return listed(params)[seed - params["first"]]
    rng = random.Random(f"{json.dumps(dict(params), sort_keys=True)}/{seed}")
    size = params["lines"] or rng.choice(list(LINES))
    pool = singles(tuple(params["libraries"]), params["shares"], params["split"])
    return draw(pool, size, rng, lambda bug: _verdict(bug, mode) == "")


def instance_of(bug: Bug, mode: str = "auto") -> Instance:
    """The bug as a task in SWE-Gym's form. Raises as ``make`` does."""
    if reason := _verdict(bug, mode):
        raise Rejected(reason)
    library, files = libraries.library(bug.library), bug.files()
    run = _run(bug, mode)
    commit = hashlib.sha1(json.dumps(files, sort_keys=True).encode(), usedforsecurity=False).hexdigest()
    failing = tuple(test for test in run.statuses if not run.has_passed(test))
    sizes = {"lines": difficulty(LINES, bug.lines()), "tests": difficulty(SUITES, len(run.statuses))}
    about = {"patch_lines": bug.lines(), "tests": len(run.statuses), "difficulty": sizes}
    return Instance(
        instance_id=f"{bug.library}-{commit[:10]}",
        repo=bug.library,
        base_commit=commit,
        problem_statement=statement(library, bug.edits, failing, run),
        FAIL_TO_PASS=failing,
        PASS_TO_PASS=tuple(run.passed),
        patch=bug.repair(),
        files=files,
        test_files=tuple(path for path in library.files if path not in library.sources),
        meta={
            **about,
            "kinds": [edit.kind for edit in bug.edits],
            "sources": list(library.sources),
        },
    )


def _verdict(bug: Bug, mode: str) -> str:
    """Why a bug makes no task; "" where it does."""
    sound, run = base_run(bug.library, mode), _run(bug, mode)
    if run.outcome is not Outcome.FINISHED:
        return f"the tests do not end well: {run.outcome}"
    if run.statuses.keys() != sound.statuses.keys():
        return "the tests cannot be collected"
    if not run.passed:
        return "every test fails"
    return "no test notices it" if len(run.passed) == len(run.statuses) else ""


@functools.cache
def base_run(name: str, mode: str = "auto") -> TestRun:
    """Run the tests of a library without any bug, once a process.

    Raises:
        LibraryError: a test fails.
    """
    run = _run_all(libraries.library(name).files, mode)
    if run.outcome is not Outcome.FINISHED or not run.statuses or len(run.passed) < len(run.statuses):
        failing = [test for test in run.statuses if not run.has_passed(test)]
        raise LibraryError(
            f"library {name} does not pass its own tests: {', '.join(failing[:3]) or run.detail or 'none'}"
        )
    return run


@functools.lru_cache(maxsize=1024)
def _run(bug: Bug, mode: str) -> TestRun:
    return _run_all(bug.files(), mode)


def _run_all(files: Mapping[str, str], mode: str) -> TestRun:
    return run_files(files, options=Options(mode=mode, limits=_LIMITS))
