"""SWE-Gym and SWE-bench instances: the repositories of others, repaired by text commands, graded by their own tests."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.environment import GameRecord, Params, PromptStyle, Rejected
from envs.repair.commands import FORM, FUNCTIONS
from envs.repair.repairs import RepairEnvironment, refuse
from envs.types import TaskError
from envs.utils.names import nearest

if TYPE_CHECKING:
    from envs.repair.instance import Instance
    from envs.repair.providers import RepoProvider
    from envs.swegym.rows import Row

PROVIDERS = ("auto", "inline", "git", "container")
# Tables 2 and 6 of the study (arXiv 2510.01132): the last value of each class.
BINS = {"lines": (8, 31), "tests": (17, 53)}
LEVELS = ("easy", "medium", "hard")
PAPER_REPOS = ("getmoto/moto", "pydantic/pydantic", "python/mypy", "pandas-dev/pandas", "iterative/dvc")
_TASK = re.compile(r"(?P<repo>[\w.-]+?(?:/[\w.-]+?)?)(?:-(?P<measure>lines|tests)-(?P<level>\w+))?")


@dataclass(frozen=True)
class Settings:
    """What ``env=swegym`` adds to the ``env`` node; conf/env/swegym.yaml says what each means."""

    instances: str
    test_instances: str
    provider: str
    mirror_dir: str
    container_image: str
    python: str
    sandbox: str
    tests_deadline_s: float = field(metadata={"range": (1, 86400)})
    memory_mib: int = field(metadata={"range": (64, 2**20)})
    test_share: float = field(metadata={"range": (0, 1)})
    validation_share: float = field(metadata={"range": (0, 1)})
    show_lines: int = field(metadata={"range": (1, 10**6)})
    show_chars: int = field(metadata={"range": (1, 10**6)})


class SweGym(RepairEnvironment):
    """Tasks ``all``, ``owner/name`` or ``name``, and each with ``-lines-easy|medium|hard`` (size of the reference patch)
    or ``-tests-easy|medium|hard`` (number of tests that count)."""

    name = "swegym"
    version = "2"
    prompt = PromptStyle("You are repairing a Python repository.", FORM, FUNCTIONS)
    Settings = Settings
    examples = ("all", "getmoto/moto")

    def parse_task(self, task: str) -> dict[str, Any]:
        match = _TASK.fullmatch(str(task))
        if not match or match["level"] not in (None, *LEVELS):
            names = ["all", *PAPER_REPOS, *(repo.split("/")[-1] for repo in PAPER_REPOS)]
            sized = [f"{name}-{measure}-{level}" for name in names for measure in BINS for level in LEVELS]
            near = nearest(str(task), [*names, *sized])
            raise TaskError(f"unknown task {task!r} of swegym; did you mean {near}?")
        _refuse(self.settings)
        return {**match.groupdict(), "checked_with": _environment(self.settings)}

    def max_turns(self, task: str) -> int:
        return 24

    def for_split(self, params: Params, split: str) -> dict[str, Any]:
        return {**params, "demonstration": split == "demonstrations"}

    def seeds(self, params: Params, split: str) -> Sequence[int]:
        """The rows of a split, unusable ones among them: they are rejected one by one, with their reasons.

        A row's split follows from a hash of its instance_id: below ``test_share`` test, then validation, then train,
        which demonstrations share. With ``test_instances``, all of that file is the test split.
        """
        found = self._rows(split)
        chosen = [row for row in found if row.instance is None or _fits(row.instance, params)]
        if not any(row.instance for row in chosen):
            raise TaskError(_no_instances(params, split, found))
        return [row.seed for row in chosen]

    def make_game(self, params: Params, seed: int, folder: Path) -> GameRecord:
        from envs.repair.accept import accept
        from envs.swegym.rows import rows

        sources = filter(None, [self.settings.instances, self.settings.test_instances])
        row = next((row for source in sources for row in rows(source) if row.seed == seed), None)
        if row is None:
            raise Rejected("the row is no longer in the instance file")
        if row.instance is None:
            raise Rejected(row.problem)
        demonstration = bool(params.get("demonstration"))
        return accept(row.instance, folder, self._setup(), name=self.name, demonstration=demonstration)

    def _rows(self, split: str) -> list[Row]:
        from envs.swegym.rows import rows

        told, is_test = self.settings, split in ("test", "test_paper")
        if told.test_instances:
            return list(rows(told.test_instances if is_test else told.instances))
        validated = told.test_share + told.validation_share
        low, high = (0.0, told.test_share) if is_test else (validated, 1.0)
        if split == "validation":
            low, high = told.test_share, validated
        return [row for row in rows(told.instances) if low <= row.place < high]

    def cpu_s(self, deadline_s: float) -> float:
        return 4 * deadline_s

    def provider(self, instance: Instance) -> RepoProvider:
        """``auto``: the instance's own files, else a mirror, else an image."""
        from envs.repair.container import ContainerImage
        from envs.repair.providers import GitMirror

        told = self.settings
        kind = told.provider
        if kind == "auto":
            kind = "inline" if instance.files else "git" if told.mirror_dir else "container"
        if kind == "inline":
            return super().provider(instance)
        return GitMirror(Path(told.mirror_dir).expanduser()) if kind == "git" else ContainerImage(told.container_image)


def _refuse(settings: Settings) -> None:
    """Settings that cannot work are answered before anything starts."""
    from envs.swegym.rows import refuse_source

    refuse(settings)
    if settings.provider not in PROVIDERS:
        near = nearest(settings.provider, PROVIDERS)
        raise TaskError(f"env.provider={settings.provider!r}; did you mean {near}? (choices: {', '.join(PROVIDERS)})")
    if settings.provider == "git" and not settings.mirror_dir:
        raise TaskError("env.provider=git needs env.mirror_dir, the folder of the local clones")
    if min(settings.test_share, settings.validation_share) < 0 or settings.test_share + settings.validation_share > 1:
        raise TaskError("env.test_share and env.validation_share are shares of the instances, together at most 1")
    if settings.mirror_dir and not Path(settings.mirror_dir).expanduser().is_dir():
        raise TaskError(f"env.mirror_dir={settings.mirror_dir!r}: no such folder")
    refuse_source("env.instances", settings.instances)
    if settings.test_instances:
        refuse_source("env.test_instances", settings.test_instances)


def _environment(settings: Settings) -> str:
    """A hash of what an instance is checked with: another interpreter or another mirror may accept other instances."""
    folder = Path(settings.mirror_dir).expanduser() if settings.mirror_dir else None
    paths = [*folder.glob("*"), *folder.glob("*/*")] if folder else []
    clones = sorted(f"{path.parent.name}/{path.name}" for path in paths)
    what = [settings.provider, settings.container_image, settings.python, settings.tests_deadline_s, clones]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]


def _fits(instance: Instance, params: Params) -> bool:
    repo, measure = params["repo"], params["measure"]
    if repo not in ("all", instance.repo, instance.repo.split("/")[-1]):
        return False
    return measure is None or difficulty(instance, measure) == params["level"]


def difficulty(instance: Instance, measure: str) -> str:
    """``easy``, ``medium`` or ``hard`` by ``lines`` of the reference patch or ``tests`` that count (tables 2 and 6)."""
    size = instance.meta["patch_lines"] if measure == "lines" else instance.meta["tests"]
    return LEVELS[sum(size > bound for bound in BINS[measure])]


def _no_instances(params: Params, split: str, found: Sequence[Row]) -> str:
    repos = sorted({row.instance.repo for row in found if row.instance})
    wanted = params["repo"] + (f"-{params['measure']}-{params['level']}" if params["measure"] else "")
    there = ", ".join(repos[:12]) or "none"
    return f"env.task={wanted}: split {split} has no such instance among {len(found)} rows (repositories: {there})"
