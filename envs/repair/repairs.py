"""The base of both repair environments: deadlines, the env, checks of settings."""

from __future__ import annotations

import abc
import sys
from typing import TYPE_CHECKING, Any, ClassVar

from envs.environment import Environment, Params
from envs.types import TaskError

if TYPE_CHECKING:
    from envs.repair.env import Setup
    from envs.repair.instance import Instance
    from envs.repair.providers import RepoProvider
    from envs.text_env import TextEnv

_POSITIVE = ("tests_deadline_s", "memory_mib", "show_lines", "show_chars")


class RepairEnvironment(Environment):
    """Repair a repository by commands; its tests grade the repair."""

    rewards = ("ratio", "binary", "pass_ratio_reference", "judge", "sparse")
    grades_unfinished: ClassVar[bool] = True
    agent_stops: ClassVar[bool] = True

    @property
    def longest_step_s(self) -> float:
        """A run of the tests."""
        return self.settings.tests_deadline_s

    @property
    def longest_making_s(self) -> float:
        """Tests run on the broken and the repaired repository, which may have to be fetched."""
        return 300.0 + 4 * self.settings.tests_deadline_s

    def env(self, *, legal: bool = False, expert: bool = False) -> TextEnv:
        from envs.repair.env import RepairEnv

        return RepairEnv(self._setup(), legal=legal, expert=expert)

    def scores_only_at_end(self, params: Params) -> bool:
        return True

    def _setup(self) -> Setup:
        """Return the env's setup; ``settings.python`` may name another interpreter for tests."""
        from envs.repair.commands import Shape
        from envs.repair.env import Setup
        from envs.repair.grading import Options
        from envs.sandbox.types import Limits

        settings = self.settings
        deadline = settings.tests_deadline_s
        limits = Limits(deadline, self.cpu_s(deadline), settings.memory_mib)
        options = Options(settings.sandbox, getattr(settings, "python", "") or sys.executable, limits)
        return Setup(self.provider, options, Shape(settings.show_lines, settings.show_chars))

    @abc.abstractmethod
    def cpu_s(self, deadline_s: float) -> float:
        """Return the CPU seconds of a test run that may last ``deadline_s`` seconds."""

    def provider(self, instance: Instance) -> RepoProvider:
        """Return where an instance's repository comes from; here the instance carries its files."""
        from envs.repair.providers import InlineFiles

        return InlineFiles()


def refuse(settings: Any) -> None:
    """Check settings before anything starts.

    Raises:
        TaskError: a limit is not above 0, or the sandbox does not work here.
    """
    from envs.sandbox import sandbox
    from envs.sandbox.types import SandboxError

    for name in _POSITIVE:
        if getattr(settings, name) <= 0:
            raise TaskError(f"env.{name}={getattr(settings, name)} must be above 0")
    try:
        if getattr(settings, "provider", "") != "container" or settings.sandbox not in sandbox.MODES:
            sandbox.level(settings.sandbox)
    except SandboxError as error:
        raise TaskError(str(error)) from error
