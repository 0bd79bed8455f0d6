"""Grade a repair: count the tests that pass."""

from dataclasses import asdict, dataclass
from typing import Any

from turngrid.envs.repair.grading import Options, TestRun
from turngrid.envs.repair.instance import Instance
from turngrid.envs.repair.workspace import Workspace
from turngrid.envs.sandbox.types import Outcome


@dataclass(frozen=True)
class Counts:
    """Numbers of FAIL_TO_PASS (``f2p``) and PASS_TO_PASS (``p2p``) tests, and of passed ones."""

    f2p_passed: int
    f2p: int
    p2p_passed: int
    p2p: int

    @property
    def resolved(self) -> bool:
        """Return whether all these tests pass (SWE-bench's criterion)."""
        return self.f2p > 0 and self.f2p_passed == self.f2p and self.p2p_passed == self.p2p

    @property
    def ratio(self) -> float:
        """FAIL_TO_PASS repaired / FAIL_TO_PASS - PASS_TO_PASS broken / PASS_TO_PASS, at least 0.

        1 is a repair, 0 an unchanged repository.
        """
        repaired = self.f2p_passed / self.f2p if self.f2p else 0.0
        broken = (self.p2p - self.p2p_passed) / self.p2p if self.p2p else 0.0
        return max(0.0, repaired - broken)

    @property
    def pass_ratio(self) -> float:
        """Passing tests / all tests, as in the study's released code (arXiv 2510.01132).

        An unchanged repository gets PASS_TO_PASS / all, which is close to 1.
        """
        tests = self.f2p + self.p2p
        return (self.f2p_passed + self.p2p_passed) / tests if tests else 0.0


@dataclass(frozen=True)
class Grade:
    """The counts of a test run, and how it ended; ``refused``: why it was not run, or ""."""

    counts: Counts
    outcome: Outcome
    detail: str
    refused: str = ""

    @property
    def resolved(self) -> bool:
        return self.counts.resolved and self.outcome is Outcome.FINISHED

    def to_info(self) -> dict[str, Any]:
        """Return JSON values for ``StepResult.info``."""
        refused = {"refused": self.refused} if self.refused else {}
        return {"tests": asdict(self.counts), "outcome": str(self.outcome), "detail": self.detail, **refused}


def grade(workspace: Workspace, options: Options) -> Grade:
    """Run an instance's tests on the agent's change, with the original test files.

    A change that no repair may have is not run, and no test of it passes.

    Raises:
        SandboxError: the sandbox cannot be built.
        PatchError: the instance's ``test_patch`` does not fit.
        ProviderError: the provider cannot run the tests.
    """
    instance = workspace.instance
    for path, text in workspace.counted.items():
        if refusal := workspace.refusal(path, text):
            none = Counts(0, len(instance.FAIL_TO_PASS), 0, len(instance.PASS_TO_PASS))
            return Grade(none, Outcome.REFUSED, refusal.message, refusal.reason)
    run = run_graded(workspace, options)
    return Grade(count(instance, run), run.outcome, run.detail)


def run_graded(workspace: Workspace, options: Options) -> TestRun:
    """Run the tests that grade a workspace."""
    instance = workspace.instance
    with workspace.layers(graded=True) as layers:
        return workspace.provider.run_tests(instance, layers, instance.tests, options)


def count(instance: Instance, run: TestRun) -> Counts:
    """Count passed tests; a test without a result counts as failed."""
    passed = [sum(map(run.has_passed, tests)) for tests in (instance.FAIL_TO_PASS, instance.PASS_TO_PASS)]
    return Counts(passed[0], len(instance.FAIL_TO_PASS), passed[1], len(instance.PASS_TO_PASS))
