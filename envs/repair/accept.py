"""Whether an instance is a task: its tests must tell a broken repository from a repaired one, here and now."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from envs.environment import GameRecord, Rejected
from envs.repair.env import RepairEnv, Setup, goal_text
from envs.repair.grading import TestRun
from envs.repair.instance import Instance
from envs.repair.patches import PatchError
from envs.repair.plan import plan
from envs.repair.providers import ProviderError
from envs.repair.score import count, run_graded
from envs.repair.workspace import Workspace
from envs.sandbox.types import Outcome
from envs.types import EnvError, TaskRef

FILE = "instance.json"


def accept(instance: Instance, folder: Path, setup: Setup, *, name: str, demonstration: bool = False) -> GameRecord:
    """Check an instance and write it to ``folder`` as a game.

    Its FAIL_TO_PASS tests must not pass as the repository is, its PASS_TO_PASS tests must; where it has a reference
    patch, the expert plan made from it must win in the real environment. An instance without one is played, but not
    demonstrated.

    Raises:
        Rejected: one of these does not hold; the reason is a line.
    """
    provider = setup.provider_of(instance)
    try:
        with Workspace(instance, provider) as workspace:
            _check(instance, run_graded(workspace, setup.options))
            expert_plan = plan(workspace) if instance.patch else ()
    except (ProviderError, PatchError) as error:
        raise Rejected(str(error)) from error
    if demonstration and not expert_plan:
        raise Rejected("no reference patch that commands can make, so it cannot be demonstrated")
    record = write(instance, folder, expert_plan)
    if expert_plan:
        must_win(record, folder, setup, name)
    return record


def write(instance: Instance, folder: Path, expert_plan: Sequence[str]) -> GameRecord:
    """The instance as a game file; two rows that are the same repository, tests and repair have one fingerprint."""
    data = json.dumps(instance.to_dict(), sort_keys=True, indent=1).encode()
    (folder / FILE).write_bytes(data)
    what = [instance.repo, instance.base_commit, sorted(instance.files.items()), sorted(instance.FAIL_TO_PASS)]
    return GameRecord(
        file=FILE,
        sha256=hashlib.sha256(data).hexdigest(),
        goal=goal_text(instance),
        expert_plan=tuple(expert_plan),
        fingerprint=hashlib.sha256(json.dumps(what).encode()).hexdigest(),
        max_score=1.0,
    )


def must_win(record: GameRecord, folder: Path, setup: Setup, name: str) -> None:
    """Play the expert plan. Raises ``Rejected`` where it does not win on its last command."""
    file = folder / record.file
    task = TaskRef(name, "", {}, 0, "", str(file), record.sha256, "", record.expert_plan, record.fingerprint, 1.0)
    env = RepairEnv(setup)
    try:
        env.reset(task, 0)
        results = [env.step(command) for command in record.expert_plan]
    except EnvError as error:
        raise Rejected(f"its expert plan cannot be played: {error}") from error
    finally:
        env.close()
    if not results[-1].won:
        raise Rejected(f"its reference patch does not repair it: {results[-1].observation.text}")


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
