"""Repairing a repository by text commands: look, search, edit, run tests, submit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from envs.repair import commands
from envs.repair.commands import Command, CommandError, Shape
from envs.repair.grading import Options, Status, TestRun
from envs.repair.instance import Instance
from envs.repair.patches import PatchError
from envs.repair.providers import InlineFiles, ProviderError, RepoProvider
from envs.repair.score import Counts, Grade, grade
from envs.repair.workspace import Workspace
from envs.sandbox.scratch import sweep
from envs.sandbox.types import Outcome, SandboxError
from envs.text_env import RawStep, TextEnv
from envs.types import EnvError, Observation, TaskRef

GOAL_CHARS = 2000
_UNKNOWN = f"That is not a command. {commands.FORM}"


@dataclass(frozen=True)
class Setup:
    """What an env needs to know besides its task: where repositories come from, how tests run, how much is shown."""

    provider_of: Callable[[Instance], RepoProvider] = field(default=lambda instance: InlineFiles())
    options: Options = field(default_factory=Options)
    shape: Shape = field(default_factory=Shape)


class RepairEnv(TextEnv):
    """The score is the ``ratio`` of the last grading, between 0 and 1; won means that every test passes that should.

    ``game_file`` of a task is an instance as JSON. Nothing is graded before ``submit``, or before the episode is cut
    off; the graded turn's ``info`` has the counts, the outcome, the agent's patch and the sandbox's level.
    """

    def __init__(self, setup: Setup | None = None, *, legal: bool = False, expert: bool = False) -> None:
        self._setup = setup or Setup()
        self._legal, self._expert = legal, expert
        self._workspace: Workspace | None = None
        self._expert_plan: tuple[str, ...] = ()
        self._followed = 0
        sweep()

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        self.close_game()
        instance = load(task)
        try:
            self._workspace = Workspace(instance, self._setup.provider_of(instance))
        except ProviderError as error:
            raise EnvError(str(error)) from error
        self._expert_plan, self._followed = tuple(task.expert_plan), 0
        names = commands.ls(self._workspace, "").replace("\n", "  ")
        return self.observe_message(f"The repository {instance.repo} has: {names}")

    def clean_action(self, action: str) -> str:
        """The first line that says something, and for ``edit`` the lines below it."""
        return commands.clean(action)

    def step_game(self, command: str) -> RawStep:
        on_plan = command in self._expert_plan[self._followed : self._followed + 1]
        self._followed = self._followed + 1 if on_plan else len(self._expert_plan)
        parsed = commands.parse(command)
        if parsed.verb == "submit":
            return self._graded()
        try:
            return RawStep(self.observe_message(self._answer(parsed)), 0.0)
        except CommandError as answer:
            info = {"refused": "file"} if answer.refused else {}
            return RawStep(self.observe_message(str(answer)), 0.0, valid=False, info=info)

    def finish_game(self) -> RawStep:
        return self._graded()

    def close_game(self) -> None:
        if self._workspace is not None:
            self._workspace.close()
            self._workspace = None

    @property
    def _open(self) -> Workspace:
        assert self._workspace is not None  # an episode is open
        return self._workspace

    def _answer(self, command: Command) -> str:
        place, argument, shape = self._open, command.argument, self._setup.shape
        if command.verb == "ls":
            return commands.ls(place, argument)
        if command.verb == "show":
            return commands.show(place, argument, shape)
        if command.verb == "search":
            return commands.search(place, argument, shape)
        if command.verb == "replace":
            return commands.replace(place, argument)
        if command.verb == "edit":
            return commands.edit(place, argument, command.body)
        if command.verb == "test":
            return self._test(argument)
        raise CommandError(_UNKNOWN)

    def _test(self, argument: str) -> str:
        place = self._open
        tests = [argument] if argument else [path for path in place.instance.test_files if path in place.paths]
        if argument and argument.split("::", 1)[0] not in place.paths:
            raise CommandError(f"There is no test file {argument.split('::', 1)[0]}.")
        if not tests:
            raise CommandError("The repository has none of the tests that count yet; name a test file.")
        with place.layers(graded=False) as layers, _as_env_error():
            run = place.provider.run_tests(place.instance, layers, tests, self._setup.options)
        return summary(run)

    def _graded(self) -> RawStep:
        place = self._open
        with _as_env_error():
            result = grade(place, self._setup.options) if place.counted else self._untouched()
        counts = result.counts
        text = (
            f"Graded: {counts.f2p_passed} of {counts.f2p} failing tests repaired, "
            f"{counts.p2p - counts.p2p_passed} of {counts.p2p} passing tests broken ({result.outcome})."
        )
        info = {**result.to_info(place.patch()), "problem": goal_text(place.instance)}
        return RawStep(Observation(text), counts.ratio, won=result.resolved, terminated=True, info=info)

    def _untouched(self) -> Grade:
        """Nothing that counts was changed, and the instance says what its tests do then."""
        instance = self._open.instance
        stayed = len(instance.PASS_TO_PASS)
        counts = Counts(0, len(instance.FAIL_TO_PASS), stayed, stayed)
        level = self._open.provider.level(self._setup.options)
        return Grade(counts, Outcome.FINISHED, "nothing was changed", level, 0.0)

    def observe_message(self, message: str) -> Observation:
        """``legal`` are commands that always work: edits are without number."""
        files = [path for path in self._open.paths if path.endswith(".py")][:8] if self._legal else []
        legal = ("ls", "test", *(f"show {path}" for path in files), "submit") if self._legal else ()
        expert = self._expert_plan[self._followed :] if self._expert else ()
        return Observation(commands.cut(message, self._setup.shape), legal=legal, expert=expert)


@contextmanager
def _as_env_error() -> Iterator[None]:
    """What is wrong with the machine or the instance is the environment's failure, not the agent's."""
    try:
        yield
    except (SandboxError, PatchError, ProviderError) as error:
        raise EnvError(str(error)) from error


def load(task: TaskRef) -> Instance:
    """The instance of a task, read once. Raises ``EnvError`` where its file is not the one that was accepted."""
    try:
        data = Path(task.game_file).read_bytes()
    except OSError:
        data = b""
    if hashlib.sha256(data).hexdigest() != task.sha256:
        raise EnvError(f"{task.game_file} is missing or is not the one that was accepted")
    return Instance.from_dict(json.loads(data))


def goal_text(instance: Instance) -> str:
    """The problem statement as one agent's goal, cut to ``GOAL_CHARS``."""
    text = "\n".join(line.rstrip() for line in instance.problem_statement.strip().splitlines())
    return text if len(text) <= GOAL_CHARS else f"{text[:GOAL_CHARS].rsplit(' ', 1)[0]} ... (cut)"


def summary(run: TestRun, shown: int = 5) -> str:
    """What an agent reads of a run of tests: how many passed, and the first failures."""
    failed = [test for test, status in run.statuses.items() if status in (Status.FAILED, Status.ERROR)]
    lines = [f"{len(run.passed)} of {len(run.statuses)} tests passed."]
    if run.outcome is not Outcome.FINISHED:
        lines.append(f"The run did not end well: {run.detail}.")
    uncollected = [name for name in run.messages if name not in run.statuses]
    for name in [*uncollected, *failed][:shown]:
        lines.append(f"{'ERROR' if name in uncollected else 'FAILED'} {name}")
        lines += [f"  {line}" for line in run.messages.get(name, "it did not finish").splitlines()]
    if len(failed) > shown:
        lines.append(f"... and {len(failed) - shown} more")
    return "\n".join(lines)
