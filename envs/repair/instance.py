"""One repair task, with the fields of SWE-Gym and SWE-bench, and files for our own tasks.

The capital names are those of the data sets (https://huggingface.co/datasets/SWE-Gym/SWE-Gym).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Self, TypeVar

import msgspec

T = TypeVar("T")

_TEXTS = ("instance_id", "repo", "base_commit", "problem_statement")
_LISTS = ("FAIL_TO_PASS", "PASS_TO_PASS")
# Files that decide how tests are found and run; an agent's versions are never used.
TEST_CONFIG = frozenset(
    {
        *("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg"),
        *("pyproject.toml", "sitecustomize.py", "usercustomize.py"),
    }
)
_TEST_FOLDERS = frozenset({"test", "tests"})


class InstanceError(ValueError):
    """A row is no repair task; the message names the instance and the field."""


@dataclass(frozen=True)
class Instance:
    """A repository at a commit, its problem, and the tests of a repair.

    Attributes:
        FAIL_TO_PASS: pytest ids of tests that fail before the repair and pass after it.
        PASS_TO_PASS: pytest ids of tests that pass before and after.
        test_patch: unified diff of the tests, applied before grading.
        patch: unified diff of the reference repair, or "".
        files: the whole repository, path -> text; empty if a mirror or an image has it.
        test_files: restored before grading, as everything that ``is_protected``.
        meta: JSON values such as ``patch_lines``, ``tests`` and ``difficulty``.
    """

    instance_id: str
    repo: str
    base_commit: str
    problem_statement: str
    FAIL_TO_PASS: tuple[str, ...]
    PASS_TO_PASS: tuple[str, ...] = ()
    test_patch: str = ""
    patch: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    test_files: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Self:
        """Return the instance of a data set's row; unknown fields are dropped.

        Raises:
            InstanceError: a field is missing, empty or of another type.
        """
        where = str(row.get("instance_id") or "an instance without instance_id")
        texts = {name: _text(row, name, where) for name in _TEXTS}
        lists = {name: _read(row, name, tuple[str, ...], where) for name in (*_LISTS, "test_files")}
        if not lists["FAIL_TO_PASS"]:
            raise InstanceError(f"{where}: FAIL_TO_PASS is missing or empty")
        ids = (*lists["FAIL_TO_PASS"], *lists["PASS_TO_PASS"])
        named = dict.fromkeys(test.split("::", 1)[0] for test in ids if "::" in test)
        lists["test_files"] = lists["test_files"] or tuple(named)
        patches = {name: str(row.get(name) or "") for name in ("test_patch", "patch")}
        files = _read(row, "files", dict[str, str], where)
        if outside := [path for path in files if not is_plain_path(path)]:
            raise InstanceError(f"{where}: files has the path {outside[0]!r}, which leaves the repository")
        meta = {"patch_lines": patch_lines(patches["patch"]), "tests": sum(len(lists[name]) for name in _LISTS)}
        given = row.get("meta")
        known: dict[str, Any] = {**texts, **lists, **patches}
        return cls(**known, files=files, meta={**meta, **(given if isinstance(given, Mapping) else {})})

    def to_dict(self) -> dict[str, Any]:
        lists = {name: list(getattr(self, name)) for name in (*_LISTS, "test_files")}
        return {**vars(self), **lists, "files": dict(self.files), "meta": dict(self.meta)}

    @property
    def tests(self) -> tuple[str, ...]:
        """All graded tests, without duplicates."""
        return tuple(dict.fromkeys((*self.FAIL_TO_PASS, *self.PASS_TO_PASS)))

    def is_protected(self, path: str) -> bool:
        """Return whether a file is a test or configures tests; edits of it are dropped."""
        return path in self.test_files or is_test_path(path)


def is_test_path(path: str) -> bool:
    """Return whether a path is a test, in a test folder, or configures pytest or Python."""
    pure = PurePosixPath(path)
    named = pure.suffix == ".py" and _is_test_name(pure.stem)
    folders = any(part in _TEST_FOLDERS or _is_test_name(part) for part in pure.parts[:-1])  # a package hides a module
    return named or folders or pure.name in TEST_CONFIG or pure.suffix == ".pth"


def _is_test_name(name: str) -> bool:
    return name.startswith("test_") or name.endswith("_test")


def patch_lines(patch: str) -> int:
    """Return added plus removed lines of a diff, the study's size of a patch."""
    return sum(line[:1] in ("+", "-") and line[:4] not in ("+++ ", "--- ") for line in patch.splitlines())


def _text(row: Mapping[str, Any], name: str, where: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise InstanceError(f"{where}: field {name} is missing or empty")
    return value


def _read(row: Mapping[str, Any], name: str, cls: Callable[[], T], where: str) -> T:
    """Return a list or table, which the published data sets may have as JSON text."""
    value = row.get(name)
    try:
        plain = msgspec.json.decode(value or "null") if isinstance(value, str) else value
        return msgspec.convert(plain, cls) if plain else cls()  # type: ignore[arg-type]
    except msgspec.DecodeError as error:
        raise InstanceError(f"{where}: field {name}: {error}") from error


def is_plain_path(path: str) -> bool:
    """Return whether a path is relative, normal, and inside the repository."""
    parts = path.split("/")
    return bool(path) and "\\" not in path and "\0" not in path and not {"", ".", "..", ".git"}.intersection(parts)
