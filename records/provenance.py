"""The code and packages of a run: one line for each start, in ``attempts.jsonl``."""

from __future__ import annotations

import platform
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from turngrid.records.files.json_lines import append_line, read_lines

ROOT = Path(__file__).resolve().parent.parent
ATTEMPTS = "attempts.jsonl"
PACKAGES = ("turngrid", "verl", "torch", "transformers", "ray", "TransferQueue", "textworld", "vllm", "numpy")


@dataclass(frozen=True)
class Attempt:
    """One start of a run."""

    commit: str | None  # None for an installed package
    dirty: bool  # tracked files differ from the commit
    versions: dict[str, str]
    started: float
    overrides: list[str] = field(default_factory=list)  # as typed

    @classmethod
    def now(cls, overrides: Sequence[str] = ()) -> Attempt:
        commit = _git("rev-parse", "HEAD")
        dirty = bool(commit and _git("status", "--porcelain", "--untracked-files=no"))
        return cls(commit, dirty, _versions(), time.time(), [*overrides])

    def record(self, path: Path) -> tuple[str, ...]:
        """Append this attempt to the record; return a line for each change since the last."""
        attempts, lines = read_attempts(path), []
        append_line(path, self)
        before = attempts[-1] if attempts else self
        if self.commit != before.commit:
            lines.append(f"this run was started at commit {_short(before.commit)} and goes on at {_short(self.commit)}")
        old, new = before.versions, self.versions
        if changed := [name for name in PACKAGES if old.get(name) != new.get(name)]:
            words = ", ".join(f"{name} {old.get(name)} -> {new.get(name)}" for name in changed)
            lines.append(f"this run was started with other packages: {words}")
        return tuple(lines)


def last_attempt(folder: Path) -> Attempt | None:
    """Return the newest recorded start; None if there is none."""
    return next(iter(reversed(read_attempts(folder / ATTEMPTS))), None)


def read_attempts(path: Path) -> list[Attempt]:
    """Return every whole line; a kill may have cut one short."""
    return [Attempt(**line) for line in read_lines(path)]


def _short(commit: str | None) -> str:
    return commit[:10] if commit else "no commit (an installed package)"


def _git(*arguments: str) -> str | None:
    if (ROOT / ".git").exists():
        with suppress(OSError, subprocess.SubprocessError):
            command = ["git", "-C", str(ROOT), *arguments]
            return subprocess.run(command, check=True, capture_output=True, text=True, timeout=10).stdout.strip()
    return None


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions
