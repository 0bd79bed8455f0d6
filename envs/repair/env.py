"""Repair a repository by text commands: look, search, edit, run tests, submit."""

from collections.abc import Callable
from dataclasses import dataclass, field

from turngrid.envs.repair import commands
from turngrid.envs.repair.grading import Options, Status, TestRun
from turngrid.envs.repair.instance import Instance
from turngrid.envs.repair.providers import InlineFiles, RepoProvider
from turngrid.envs.repair.score import Counts, Grade, grade
from turngrid.envs.repair.workspace import Workspace
from turngrid.envs.sandbox.sandbox import sweep
from turngrid.envs.sandbox.types import Outcome
from turngrid.envs.text_env import RawStep, TextEnv, accepted_json
from turngrid.envs.types import InvalidAction, Observation, TaskRef

GOAL_CHARS = 2000
_UNKNOWN = f"That is not a command. {commands.FORM}"


@dataclass(frozen=True)
class Setup:
    """Settings: source of repositories, run of tests, size of an observation."""

    show_lines: int
    show_chars: int
    provider_of: Callable[[Instance], RepoProvider] = field(default=lambda instance: InlineFiles())
    options: Options = field(default_factory=Options)


class RepairEnv(TextEnv):
    """One repair at a time; a task's ``game_file`` is an instance as JSON.

    The score is the ``ratio`` of the grading, in [0, 1]. It comes at ``submit`` or when the episode
    is cut off; that turn's ``info`` has the counts, the outcome, the agent's patch and the
    sandbox's level.
    """

    def __init__(self, setup: Setup, *, legal: bool = False) -> None:
        super().__init__(legal=legal)
        self._setup = setup
        self._workspace: Workspace | None = None
        sweep()

    def reset_game(self, task: TaskRef, seed: int) -> Observation:
        self.close_game()
        instance = Instance.from_dict(accepted_json(task))
        self._workspace = Workspace(instance, self._setup.provider_of(instance))
        names = commands.ls(self._workspace, "").replace("\n", "  ")
        return self.observe_message(f"The repository {instance.repo} has: {names}")

    def clean_action(self, action: str) -> str:
        """Return the first line that is not blank, and for ``edit`` the lines below it."""
        return commands.clean(action)

    def step_game(self, command: str) -> RawStep:
        head, *body = command.split("\n")  # ``edit`` has lines below it
        verb, _, argument = head.partition(" ")
        if verb.lower() == "submit":
            return self._graded()
        argument = argument.strip().removeprefix("" if verb.lower() == "search" else "./")
        return RawStep(self.observe_message(self._answer(verb.lower(), argument, body)))

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

    def _answer(self, verb: str, argument: str, body: list[str]) -> str:
        workspace, most = self._open, self._setup.show_lines
        match verb:
            case "ls":
                return commands.ls(workspace, argument)
            case "show":
                return commands.show(workspace, argument, most)
            case "search":
                return commands.search(workspace, argument, most)
            case "replace":
                return commands.replace(workspace, argument)
            case "edit":
                return commands.edit(workspace, argument, body)
            case "test":
                return self._test(argument)
        raise InvalidAction(_UNKNOWN)

    def _test(self, argument: str) -> str:
        workspace = self._open
        instance, paths, file = workspace.instance, workspace.paths, argument.split("::", 1)[0]
        if argument and file not in paths:
            raise InvalidAction(f"There is no test file {file}.")
        tests = [argument] if argument else [path for path in instance.test_files if path in paths]
        if not tests:
            raise InvalidAction("The repository has none of the tests that count yet; name a test file.")
        with workspace.layers(graded=False) as layers:
            run = workspace.provider.run_tests(instance, layers, tests, self._setup.options)
        return summary(run)

    def _graded(self) -> RawStep:
        workspace = self._open
        result = grade(workspace, self._setup.options) if workspace.counted else self._unchanged()
        level = workspace.provider.level(self._setup.options)
        about = {"sandbox": str(level), "patch": workspace.patch(), "problem": goal_text(workspace.instance)}
        self.close_game()  # a worker that is killed between two episodes leaves no folder behind
        seen, info = Observation(verdict(result)), {**result.to_info(), **about}
        return RawStep(seen, result.counts.ratio, won=result.resolved, terminated=True, info=info)

    def _unchanged(self) -> Grade:
        """Return the grade of an episode without graded edits; no test has to run."""
        instance = self._open.instance
        stayed = len(instance.PASS_TO_PASS)
        counts = Counts(0, len(instance.FAIL_TO_PASS), stayed, stayed)
        return Grade(counts, Outcome.FINISHED, "nothing was changed")

    def observe_message(self, message: str) -> Observation:
        return super().observe_message(commands.cut(message, self._setup.show_lines, self._setup.show_chars))

    def legal_actions(self) -> tuple[str, ...]:
        """Return what always works, since possible edits are endless."""
        files = [path for path in self._open.paths if path.endswith(".py")][:8]
        return ("ls", "test", *(f"show {path}" for path in files), "submit")


def goal_text(instance: Instance) -> str:
    text = "\n".join(line.rstrip() for line in instance.problem_statement.strip().splitlines())
    return text if len(text) <= GOAL_CHARS else f"{text[:GOAL_CHARS].rsplit(' ', 1)[0]} ... (cut)"


def verdict(result: Grade) -> str:
    counts = result.counts
    ended = f"{result.outcome}: {result.detail}" if result.refused else result.outcome
    return (
        f"Graded: {counts.f2p_passed} of {counts.f2p} failing tests repaired, "
        f"{counts.p2p - counts.p2p_passed} of {counts.p2p} passing tests broken ({ended})."
    )


def summary(run: TestRun, shown: int = 5) -> str:
    """Return what an agent reads of a test run: how many passed, and the first failures."""
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
