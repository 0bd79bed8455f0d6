"""SWE-Gym and SWE-bench: real repositories, repaired by text commands, graded by tests."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turngrid.envs.data_set import DataSetEnvironment, DataSetSettings, Fields, Row
from turngrid.envs.environment import NEED_PLAN, GameRecord, Params, PromptStyle, facts_hash
from turngrid.envs.repair.bugs import SUITES, difficulty
from turngrid.envs.repair.commands import FORM, FUNCTIONS
from turngrid.envs.repair.environment import RepairEnvironment, RepairSettings
from turngrid.envs.repair.games import accept
from turngrid.envs.repair.instance import Instance
from turngrid.envs.repair.providers import ContainerImage, GitMirror, InlineFiles, RepoProvider, check_engine
from turngrid.envs.types import TaskError

# First and last number of lines of a patch, and of tests (tables 2 and 6 of arXiv 2510.01132).
SIZES = {"lines": {"easy": (0, 8), "medium": (9, 31), "hard": (32, 10**9)}, "tests": SUITES}
PAPER_REPOS = ("getmoto/moto", "pydantic/pydantic", "python/mypy", "pandas-dev/pandas", "iterative/dvc")
_SIZE = {"lines": "patch_lines", "tests": "tests"}  # in an instance's ``meta``
_TASK = re.compile(r"(?P<repo>[\w.-]+?(?:/[\w.-]+?)?)(?:-(?P<measure>lines|tests)-(?P<level>\w+))?")


@dataclass(frozen=True)
class SweGymSettings(DataSetSettings, RepairSettings):
    test_instances: str = field()  # no default here: the YAML has it
    test_share: float = field(metadata={"range": (0, 1)})
    validation_share: float = field(metadata={"range": (0, 1)})
    provider: str = field(metadata={"choices": ("auto", "inline", "git", "container")})
    mirror_dir: str
    container_image: str
    python: str


class SweGym(DataSetEnvironment, RepairEnvironment):
    """Tasks: ``all``, ``owner/name`` or ``name``.

    Each may end with ``-lines-easy|medium|hard`` (size of the reference patch) or
    ``-tests-easy|medium|hard`` (number of graded tests).
    """

    name = "swegym"
    recipe = 2
    prompt = PromptStyle("You are repairing a Python repository.", FORM, FUNCTIONS)
    Settings = SweGymSettings
    examples = ("all", "getmoto/moto")
    row_id = "instance_id"

    def parse_task(self, task: str) -> dict[str, Any]:
        match = _TASK.fullmatch(str(task))
        if not match or match["level"] not in (None, *SUITES):
            names = ["all", *PAPER_REPOS, *(repo.split("/")[-1] for repo in PAPER_REPOS)]
            sized = [f"{name}-{measure}-{level}" for name in names for measure in SIZES for level in SUITES]
            raise self.unknown(task, [*names, *sized])
        self.check_settings()
        return {**match.groupdict(), "checked_with": _checked_with(self.settings)}

    def for_split(self, params: Params, split: str) -> dict[str, Any]:
        return {**params, "needs_plan": split in NEED_PLAN}

    @staticmethod
    def read_row(row: Mapping[str, Any]) -> Fields:
        return Instance.from_dict(row).to_dict()

    def fits(self, fields: Fields, params: Params) -> bool:
        repo, measure = params["repo"], params["measure"]
        if repo not in ("all", fields["repo"], fields["repo"].split("/")[-1]):
            return False
        return measure is None or difficulty(SIZES[measure], fields["meta"][_SIZE[measure]]) == params["level"]

    def row_game(self, fields: Fields, params: Params, folder: Path) -> GameRecord:
        return accept(Instance.from_dict(fields), folder, self.setup(), demonstration=params["needs_plan"])

    def no_rows(self, params: Params, split: str, of_split: Sequence[Row]) -> str:
        repos = sorted({row.fields["repo"] for row in of_split if row.fields})
        wanted = params["repo"] + (f"-{params['measure']}-{params['level']}" if params["measure"] else "")
        rows = f"{len(of_split)} rows (repositories: {', '.join(repos[:12]) or 'none'})"
        return f"env.task={wanted}: split {split} has no such instance among {rows}"

    def cpu_s(self, deadline_s: float) -> float:
        return 4 * deadline_s

    def provider(self, instance: Instance) -> RepoProvider:
        """Return an instance's provider; ``auto``: its own files, else a mirror, else an image."""
        provider, mirrors = self.settings.provider, self.settings.mirror_dir
        if provider == "inline" or (provider == "auto" and instance.files):
            return InlineFiles()
        if provider == "git" or (provider == "auto" and mirrors):
            return GitMirror(Path(mirrors).expanduser())
        return ContainerImage(self.settings.container_image)

    @property
    def python(self) -> str:  # type: ignore[override]
        return self.settings.python or sys.executable

    def check_settings(self) -> None:
        settings = self.settings
        if settings.provider == "container":
            check_engine()
        else:
            super().check_settings()
        if settings.provider == "git" and not settings.mirror_dir:
            raise TaskError("env.provider=git needs env.mirror_dir, the folder of the local clones")
        if settings.mirror_dir and not Path(settings.mirror_dir).expanduser().is_dir():
            raise TaskError(f"env.mirror_dir={settings.mirror_dir!r}: no such folder")
        self.check_sources()


def _checked_with(settings: SweGymSettings) -> str:
    """Return a hash of what decides whether an instance is accepted: settings and clones."""
    folder = Path(settings.mirror_dir).expanduser() if settings.mirror_dir else None
    paths = [*folder.glob("*"), *folder.glob("*/*")] if folder else []
    clones = sorted(f"{path.parent.name}/{path.name}" for path in paths)
    limits = [settings.tests_deadline_s, settings.memory_mib, settings.sandbox]
    return facts_hash([settings.provider, settings.container_image, settings.python, *limits, clones])[:16]
