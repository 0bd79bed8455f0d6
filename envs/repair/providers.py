"""Where a repository comes from and where its tests run: three ways.

``InlineFiles``: the instance carries the files. ``GitMirror``: a local clone has the commit. ``ContainerImage`` (in
``container``): an image has the repository with everything that it needs installed, and its tests run there.
"""

from __future__ import annotations

import abc
import io
import subprocess
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from envs.repair.grading import Options, TestRun, run_tests, write_files
from envs.repair.instance import Instance
from envs.sandbox import sandbox
from envs.sandbox.types import Level

_GIT_DEADLINE_S = 300.0


class ProviderError(RuntimeError):
    """This repository, or this commit of it, cannot be had; the message says what was looked for and where."""


class RepoProvider(abc.ABC):
    """A way to a repository. All methods raise ``ProviderError`` where it is not to be had.

    ``strict``: a repair may only change existing source files (``Workspace.is_source``).
    """

    name: ClassVar[str]
    strict: ClassVar[bool] = False

    def texts(self, instance: Instance) -> Mapping[str, str]:
        """All the files, where they are at hand without a checkout; {} where they are not."""
        return {}

    @abc.abstractmethod
    def checkout(self, instance: Instance, folder: Path) -> None:
        """Fill an empty folder with the repository's files at ``base_commit``, without its history."""

    def level(self, options: Options) -> Level:
        """Return the sandbox level at which tests run."""
        return sandbox.level(options.mode)

    def run_tests(self, instance: Instance, layers: Sequence[Path], tests: Iterable[str], options: Options) -> TestRun:
        """Run tests on ``layers`` (the first is the checked-out folder) behind walls: those of this machine's sandbox."""
        return run_tests(layers, tests, options)


class InlineFiles(RepoProvider):
    """The files that the instance carries."""

    name = "inline"
    strict = True

    def texts(self, instance: Instance) -> Mapping[str, str]:
        if not instance.files:
            raise ProviderError(f"{instance.instance_id} carries no files (field files)")
        return instance.files

    def checkout(self, instance: Instance, folder: Path) -> None:
        write_files(folder, self.texts(instance))


@dataclass(frozen=True)
class GitMirror(RepoProvider):
    """Local clones below ``folder``, bare or not: ``owner__name.git``, ``owner__name``, ``owner/name.git`` or
    ``owner/name``. Nothing is fetched. Tests run in this machine's sandbox with ``Options.python``, which needs what
    the repository needs."""

    folder: Path
    name: ClassVar[str] = "git"

    def clone(self, repo: str) -> Path:
        """The clone of ``owner/name``. Raises ``ProviderError`` where there is none."""
        flat = repo.replace("/", "__")
        names = [f"{flat}.git", flat, f"{repo}.git", repo]
        folders = [self.folder / name for name in names]
        found = [place for place in folders if (place / "HEAD").is_file() or (place / ".git").exists()]
        if ".." in repo.split("/") or not found:
            raise ProviderError(f"no mirror of {repo} in {self.folder} (looked for {', '.join(names)})")
        return found[0]

    def checkout(self, instance: Instance, folder: Path) -> None:
        clone, commit = self.clone(instance.repo), instance.base_commit
        if commit.startswith("-") or _git(clone, "cat-file", "-e", f"{commit}^{{commit}}").returncode:
            raise ProviderError(f"{clone} has no commit {commit}")
        archive = _git(clone, "archive", "--format=tar", commit)
        if archive.returncode:
            said = archive.stderr.decode(errors="replace").strip().splitlines() or [""]
            raise ProviderError(f"git archive of {instance.repo} failed: {said[-1]}")
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
            tar.extractall(folder, filter="tar")

    def level(self, options: Options) -> Level:
        """Return the sandbox level at which tests run."""
        return sandbox.level(options.mode)

    def run_tests(self, instance: Instance, layers: Sequence[Path], tests: Iterable[str], options: Options) -> TestRun:
        return run_tests(layers, tests, replace(options, autoload=True))


def _git(clone: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """git without anybody's configuration, and without going to the network for what a partial clone lacks."""
    env = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }
    command = ["git", "-C", str(clone), *arguments]
    try:
        return subprocess.run(command, env=env, capture_output=True, timeout=_GIT_DEADLINE_S, check=False)
    except FileNotFoundError as error:
        raise ProviderError("provider git needs the program git") from error
