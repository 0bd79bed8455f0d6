"""From a seed to a repair task: draw bugs, run the tests, keep what they notice, play the repair to a win."""

from __future__ import annotations

import functools
import hashlib
import json
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from envs.environment import GameRecord, Params, Rejected
from envs.repair import libraries, turned
from envs.repair.accept import must_win, write
from envs.repair.drawing import LINES, Bug, difficulty, draw, one_liners, singles
from envs.repair.env import Setup
from envs.repair.grading import Options, TestRun, run_files
from envs.repair.instance import Instance, is_test_path
from envs.repair.libraries import SUITES, LibraryError
from envs.repair.plan import plan
from envs.repair.statement import statement
from envs.repair.workspace import Workspace
from envs.sandbox.types import Limits, Outcome

# A whole suite takes a third of a second of a processor: what takes ten times as long does not end. Wall time is for busy
# machines, on which the same seeds must give the same games.
_LIMITS = Limits(wall_s=120.0, cpu_s=4.0, memory_mib=1024)
# The tests as they are, and which of them pass turned round as well: what a loop over nothing asserts holds both ways.
Observed = tuple[TestRun, tuple[str, ...]]


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
    run, unturned = _run(bug, mode)
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
            "unturned": sorted({*unturned, *observed_library(bug.library, mode)[1]}),
        },
    )


def _verdict(bug: Bug, mode: str) -> str:
    """Why a bug makes no task; "" where it does."""
    sound, (run, _) = base_run(bug.library, mode), _run(bug, mode)
    if run.outcome is not Outcome.FINISHED:
        return f"the tests do not end well: {run.outcome}"
    if run.statuses.keys() != sound.statuses.keys():
        return "the tests cannot be collected"
    if not run.passed:
        return "every test fails"
    return "no test notices it" if len(run.passed) == len(run.statuses) else ""


def base_run(name: str, mode: str = "auto") -> TestRun:
    """The tests of a library without any bug. Raises as ``observed_library`` does."""
    return observed_library(name, mode)[0]


@functools.cache
def observed_library(name: str, mode: str = "auto") -> Observed:
    """The same with the tests turned round, run once a process.

    Raises:
        LibraryError: they do not all pass.
    """
    run, unturned = _observed(libraries.library(name).files, mode)
    if run.outcome is not Outcome.FINISHED or not run.statuses or len(run.passed) < len(run.statuses):
        failing = [test for test in run.statuses if not run.has_passed(test)]
        raise LibraryError(
            f"library {name} does not pass its own tests: {', '.join(failing[:3]) or run.detail or 'none'}"
        )
    return run, unturned


@functools.lru_cache(maxsize=1024)
def _run(bug: Bug, mode: str) -> Observed:
    return _observed(bug.files(), mode)


def _observed(files: Mapping[str, str], mode: str) -> Observed:
    """A run of all tests, as they are and turned round; what it says of the latter is taken out of it."""
    copies = turned.files({path: text for path, text in files.items() if is_test_path(path)})
    run = run_files({**files, **copies}, options=Options(mode=mode, limits=_LIMITS))
    statuses = {test: status for test, status in run.statuses.items() if test.split("::")[0] not in copies}
    messages = {name: text for name, text in run.messages.items() if name.split("::")[0] not in copies}
    return replace(run, statuses=statuses, messages=messages), tuple(turned.both_pass(run, statuses))
