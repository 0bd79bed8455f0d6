"""What the two environments of repairs share: how long tests may take, who plays, and which settings cannot work."""

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
    """A repository is repaired by commands and graded by its tests; ``settings`` has ``sandbox`` and ``_POSITIVE``."""

    rewards = ("ratio", "binary", "pass_ratio_reference", "judge", "sparse")
    grades_unfinished: ClassVar[bool] = True
    agent_stops: ClassVar[bool] = True

    @property
    def longest_step_s(self) -> float:
        """A run of the tests."""
        return self.settings.tests_deadline_s

    @property
    def longest_making_s(self) -> float:
        """The tests run broken, repaired and along the expert plan; and a repository may have to be fetched."""
        return 300.0 + 4 * self.settings.tests_deadline_s

    def env(self, *, legal: bool = False, expert: bool = False) -> TextEnv:
        from envs.repair.env import RepairEnv

        return RepairEnv(self._setup(), legal=legal, expert=expert)

    def scores_only_at_end(self, params: Params) -> bool:
        return True

    def _setup(self) -> Setup:
        """Whose tests run where: the user's interpreter is another one where the settings name it (``python``)."""
        from envs.repair.commands import Shape
        from envs.repair.env import Setup
        from envs.repair.grading import Options
        from envs.sandbox.types import Limits

        told = self.settings
        limits = Limits(told.tests_deadline_s, self.cpu_s(told.tests_deadline_s), told.memory_mib)
        options = Options(told.sandbox, getattr(told, "python", "") or sys.executable, limits)
        return Setup(self.provider, options, Shape(told.show_lines, told.show_chars))

    @abc.abstractmethod
    def cpu_s(self, deadline_s: float) -> float:
        """Seconds of a processor that a run of tests may take within ``deadline_s``."""

    def provider(self, instance: Instance) -> RepoProvider:
        """Where an instance's repository comes from: the instance itself, which holds its files."""
        from envs.repair.providers import InlineFiles

        return InlineFiles()


def refuse(settings: Any) -> None:
    """Settings that cannot work are answered before anything starts.

    Raises:
        TaskError: a limit that is not above 0, or a sandbox that cannot be had here.
    """
    from envs.sandbox import sandbox
    from envs.sandbox.types import SandboxError

    for name in _POSITIVE:
        if getattr(settings, name) <= 0:
            raise TaskError(f"env.{name}={getattr(settings, name)} must be above 0")
    try:
        if settings.sandbox not in sandbox.MODES or settings.sandbox == "required":
            sandbox.level(settings.sandbox)
    except SandboxError as error:
        raise TaskError(str(error)) from error
