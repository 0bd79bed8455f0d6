"""Make repair tasks: draw a bug or take an instance, run its tests, plan its repair."""

from __future__ import annotations

import difflib
import functools
import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from turngrid.envs.environment import GameRecord, Params, Rejected
from turngrid.envs.repair import bugs, patches
from turngrid.envs.repair.bugs import LINES, SUITES, Bug, difficulty, statement
from turngrid.envs.repair.commands import clean, lines_of
from turngrid.envs.repair.env import Setup, goal_text
from turngrid.envs.repair.grading import Options, TestRun, run_files
from turngrid.envs.repair.instance import Instance
from turngrid.envs.repair.providers import ProviderError
from turngrid.envs.repair.score import count, run_graded
from turngrid.envs.repair.workspace import Workspace
from turngrid.envs.sandbox.types import Limits, Outcome

FILE = "instance.json"
# A suite takes 0.3 s of CPU time; ten times as long means that it does not end. The wall time is
# long because the same seeds must give the same games on a busy machine.
LIMITS = Limits(wall_s=120.0, cpu_s=4.0, memory_mib=1024)
_CONTEXT_LINES = 5  # that a plan shows around an edit
_MAX_SHOWN = 30


def make(params: Params, seed: int, folder: Path, setup: Setup) -> GameRecord:
    """Make the task of a seed in ``folder``.

    Raises:
        Rejected: the tests do not notice the bug, notice nothing else, or do not end.
    """
    bug = _bug(params, seed, setup.options.mode)
    instance = instance_of(bug, setup.options.mode)
    with Workspace(instance, setup.provider_of(instance)) as workspace:
        expert_plan = plan(workspace)
    if not expert_plan:
        raise Rejected("the repair cannot be made with an agent's commands")
    return write(instance, folder, expert_plan)


def listed(params: Params) -> tuple[Bug, ...]:
    """Return the candidates of a task with listed games: all easy repairs of a split."""
    return bugs.one_liners(tuple(params["libraries"]), params["shares"], params["split"])


def _bug(params: Params, seed: int, mode: str) -> Bug:
    if params["lines"] == "easy":
        return listed(params)[seed - params["first"]]
    rng = random.Random(f"{json.dumps(dict(params), sort_keys=True)}/{seed}")
    size = params["lines"] or rng.choice(list(LINES))
    pool = bugs.singles(tuple(params["libraries"]), params["shares"], params["split"])
    return bugs.draw(pool, size, rng, lambda bug: _problem(bug, mode) == "")


def instance_of(bug: Bug, mode: str = "auto") -> Instance:
    """Return the bug as a task in SWE-Gym's form. Raises: as ``make``."""
    if reason := _problem(bug, mode):
        raise Rejected(reason)
    whole, files, run = bugs.library(bug.library), bug.files(), _run(bug, mode)
    commit = hashlib.sha1(json.dumps(files, sort_keys=True).encode(), usedforsecurity=False).hexdigest()
    failing = tuple(test for test in run.statuses if not run.has_passed(test))
    return Instance(
        instance_id=f"{bug.library}-{commit[:10]}",
        repo=bug.library,
        base_commit=commit,
        problem_statement=statement(bug, failing, run),
        FAIL_TO_PASS=failing,
        PASS_TO_PASS=tuple(run.passed),
        patch=bug.repair(),
        files=files,
        test_files=tuple(path for path in whole.files if path not in whole.sources),
        meta={
            "patch_lines": bug.lines(),
            "tests": len(run.statuses),
            "difficulty": {
                "lines": difficulty(LINES, bug.lines()),
                "tests": difficulty(SUITES, len(run.statuses)),
            },
            "kinds": [edit.kind for edit in bug.edits],
            "sources": list(whole.sources),
        },
    )


def _problem(bug: Bug, mode: str) -> str:
    """Return why a bug makes no task, or ""."""
    sound, run = _run(Bug(bug.library, ()), mode), _run(bug, mode)
    if run.outcome is not Outcome.FINISHED:
        return f"the tests do not end well: {run.outcome}"
    if run.statuses.keys() != sound.statuses.keys():
        return "the tests cannot be collected"
    if not run.passed:
        return "every test fails"
    return "no test notices it" if len(run.passed) == len(run.statuses) else ""


@functools.lru_cache(maxsize=1024)
def _run(bug: Bug, mode: str) -> TestRun:
    return run_files(bug.files(), options=Options(mode=mode, limits=LIMITS))


def accept(instance: Instance, folder: Path, setup: Setup, *, demonstration: bool = False) -> GameRecord:
    """Check an instance and write it to ``folder`` as a game.

    Its FAIL_TO_PASS tests must fail in the repository as it is, its PASS_TO_PASS tests must pass.

    Raises:
        Rejected: a condition does not hold, or a demonstration has no expert plan.
    """
    try:
        with Workspace(instance, setup.provider_of(instance)) as workspace:
            _check(instance, run_graded(workspace, setup.options))
            expert_plan = plan(workspace) if instance.patch else ()
    except (ProviderError, patches.PatchError) as error:
        raise Rejected(str(error)) from error
    if demonstration and not expert_plan:
        raise Rejected("no reference patch that commands can make, so it cannot be demonstrated")
    return write(instance, folder, expert_plan)


def _check(instance: Instance, run: TestRun) -> None:
    counts = count(instance, run)
    if run.outcome is not Outcome.FINISHED:
        raise Rejected(f"its tests do not end well: {run.detail}")
    if not run.statuses and not run.messages:
        raise Rejected("no tests: the repository has none of the tests that it names")
    if counts.f2p_passed:
        raise Rejected(f"{counts.f2p_passed} of {counts.f2p} FAIL_TO_PASS tests pass before the repair")
    if counts.p2p_passed < counts.p2p:
        raise Rejected(f"{counts.p2p - counts.p2p_passed} of {counts.p2p} PASS_TO_PASS tests fail before the repair")


def write(instance: Instance, folder: Path, expert_plan: Sequence[str]) -> GameRecord:
    """Write the instance as a game file; equal repositories and tests have one fingerprint."""
    data = json.dumps(instance.to_dict(), sort_keys=True, indent=1).encode()
    (folder / FILE).write_bytes(data)
    what = [instance.repo, instance.base_commit, sorted(instance.files.items()), sorted(instance.FAIL_TO_PASS)]
    fingerprint = hashlib.sha256(json.dumps(what).encode()).hexdigest()
    return GameRecord(FILE, hashlib.sha256(data).hexdigest(), goal_text(instance), tuple(expert_plan), fingerprint)


def plan(workspace: Workspace) -> tuple[str, ...]:
    """Return the commands that make the reference repair: show each place, edit it, submit.

    Returns () without a reference patch, or if commands cannot make it (a removed file, an edit
    that is too long).

    Raises:
        PatchError: the patch does not fit the repository.
    """
    instance = workspace.instance
    changed = patches.apply(instance.patch, workspace.base_text)
    counted = {path: text for path, text in changed.items() if not instance.is_protected(path)}
    if not counted or any(text is None for text in counted.values()):
        return ()
    commands = [command for path, text in sorted(counted.items()) for command in _edits(workspace, path, text or "")]
    makeable = all(clean(command) == command for command in commands)
    return (*commands, "submit") if commands and makeable else ()


def _edits(workspace: Workspace, path: str, text: str) -> Iterator[str]:
    """Yield edits of one file from its end to its start, so that line numbers stay valid."""
    is_new = path not in workspace.paths
    before, after = [] if is_new else lines_of(workspace.base_text(path)), lines_of(text)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for kind, start, stop, new_start, new_stop in reversed(matcher.get_opcodes()):
        if kind == "equal":
            continue
        if not is_new:
            first, last = max(1, start + 1 - _CONTEXT_LINES), min(len(before), stop + _CONTEXT_LINES)
            yield f"show {path} {first}-{min(last, first + _MAX_SHOWN)}"
        more, body = _without_blank_end(before[stop:], after[new_start:new_stop])
        yield "\n".join([f"edit {path} {start + 1}-{stop + more}", *body])


def _without_blank_end(below: Sequence[str], body: list[str]) -> tuple[int, list[str]]:
    """Extend an edit to the next line with text, since an action's last blank lines are dropped.

    Returns how many more lines it replaces, and its text. At the end of a file, blank lines go.
    """
    more = 0
    while body and not body[-1].strip() and more < len(below):
        body = [*body, below[more]]
        more += 1
    while body and not body[-1].strip():
        body = body[:-1]
    return more, body
