"""Providers of repositories: where the files come from and where the tests run."""

import abc
import functools
import io
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from turngrid.envs.repair.grading import BOOT, Options, TestRun, prepare, run_tests, understand, write_files
from turngrid.envs.repair.instance import Instance
from turngrid.envs.sandbox import sandbox
from turngrid.envs.sandbox.types import Level, Limits
from turngrid.envs.sandbox.watch import watched
from turngrid.envs.types import EnvError, TaskError

ENGINES = ("docker", "podman")
# In the published images: the repository, and the interpreter that has its packages.
_TESTBED, _PYTHON = "/testbed", "/opt/miniconda3/envs/testbed/bin/python"
_DEADLINE_S = 600.0
# Without the user's configuration, and without fetching what a partial clone lacks.
_GIT_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_NO_LAZY_FETCH": "1",
}


class ProviderError(EnvError):
    """A repository or commit is not available; the message says what was looked for and where."""


class RepoProvider(abc.ABC):
    """A source of repositories. All methods raise ``ProviderError`` if one is not available.

    ``strict``: a repair may only change existing source files (``Workspace.is_source``).
    """

    strict: ClassVar[bool] = False

    @abc.abstractmethod
    def checkout(self, instance: Instance, folder: Path) -> None:
        """Fill an empty folder with the repository at ``base_commit``, without its history."""

    def level(self, options: Options) -> Level:
        """Return the sandbox level at which tests run."""
        return sandbox.level(options.mode)

    def run_tests(self, instance: Instance, layers: Sequence[Path], tests: Iterable[str], options: Options) -> TestRun:
        """Run tests on ``layers``; the first is the checked-out folder."""
        return run_tests(layers, tests, options)


class InlineFiles(RepoProvider):
    strict = True

    def checkout(self, instance: Instance, folder: Path) -> None:
        if not instance.files:
            raise ProviderError(f"{instance.instance_id} carries no files (field files)")
        write_files(folder, instance.files)


@dataclass(frozen=True)
class GitMirror(RepoProvider):
    """Local clones below ``folder``, bare or not, named ``owner__name`` or ``owner/name``, with or
    without ``.git``.

    Nothing is fetched. Tests run in this machine's sandbox with ``Options.python``, which needs
    the repository's dependencies.
    """

    folder: Path

    def clone(self, repo: str) -> Path:
        flat = repo.replace("/", "__")
        names = [f"{flat}.git", flat, f"{repo}.git", repo]
        folders = [self.folder / name for name in names]
        clones = [path for path in folders if (path / "HEAD").is_file() or (path / ".git").exists()]
        if ".." in repo.split("/") or not clones:
            raise ProviderError(f"no mirror of {repo} in {self.folder} (looked for {', '.join(names)})")
        return clones[0]

    def checkout(self, instance: Instance, folder: Path) -> None:
        clone, commit = self.clone(instance.repo), instance.base_commit
        if commit.startswith("-"):  # git would take it for an option
            raise ProviderError(f"{clone} has no commit {commit}")
        command = ["git", "-c", "safe.directory=*", "-C", str(clone), "archive", "--format=tar", commit]
        _unpack(_output(command, f"git cannot read commit {commit} of {clone}", _GIT_ENVIRONMENT), folder)

    def run_tests(self, instance: Instance, layers: Sequence[Path], tests: Iterable[str], options: Options) -> TestRun:
        return run_tests(layers, tests, replace(options, autoload=True))


@dataclass(frozen=True)
class ContainerImage(RepoProvider):
    """A container image an instance, with the repository at its commit and its dependencies.

    The command line of docker or podman is used; nothing is pulled. A container has no network, no
    privileges and the sandbox's limits, and is removed after each run.

    Attributes:
        image: template with ``{id}`` (the instance's name in lower case, ``__`` as ``_s_``, as in
            the published images), ``{instance_id}`` and ``{repo}``.
    """

    image: str

    def level(self, options: Options) -> Level:
        return Level.CONTAINER

    def image_of(self, instance: Instance) -> str:
        name = instance.instance_id
        return self.image.format(id=name.lower().replace("__", "_s_"), instance_id=name, repo=instance.repo)

    def checkout(self, instance: Instance, folder: Path) -> None:
        container = self._create(instance, [], Limits())
        try:
            packed = _engine("cp", f"{container}:{_TESTBED}/.", "-")
        finally:
            _engine("rm", "-f", container)
        _unpack(packed, folder)

    def run_tests(self, instance: Instance, layers: Sequence[Path], tests: Iterable[str], options: Options) -> TestRun:
        tests = list(tests)
        key, request = prepare(tests, Options(options.mode, _PYTHON, options.limits, autoload=True))
        container = self._create(instance, [_PYTHON, "-s", "-B", "-c", BOOT], options.limits)
        try:
            for layer in layers[1:]:  # the image has the first
                _engine("cp", f"{layer}/.", f"{container}:{_TESTBED}")
            command = [engine(), "start", "-a", "-i", container]
            return understand(watched(command, options.limits, request), key, tests)
        finally:
            _engine("rm", "-f", container)

    def _create(self, instance: Instance, command: list[str], limits: Limits) -> str:
        walls = ["--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--pull=never"]
        sizes = [f"--memory={limits.memory_mib}m", f"--pids-limit={limits.processes}", f"--workdir={_TESTBED}"]
        variables = ["--env=PYTHONHASHSEED=0", "--env=PYTHONDONTWRITEBYTECODE=1", "--env=HOME=/tmp"]
        created = _engine("create", "-i", *walls, *sizes, *variables, self.image_of(instance), *(command or ["true"]))
        return created.decode().split()[-1]


@functools.cache
def engine() -> str:
    """Return the container engine's program.

    Raises:
        ProviderError: no engine answers.
    """
    for name in filter(shutil.which, ENGINES):
        if subprocess.run([name, "info"], capture_output=True, timeout=60, check=False).returncode == 0:
            return name
    raise ProviderError("env.provider=container needs docker or podman, with a service that answers")


def check_engine() -> None:
    """Raise TaskError if no engine answers."""
    try:
        engine()
    except ProviderError as error:
        raise TaskError(str(error)) from error


def _engine(*arguments: str) -> bytes:
    return _output([engine(), *arguments], f"{engine()} {arguments[0]}")


def _output(command: Sequence[str], failure: str, env: Mapping[str, str] | None = None) -> bytes:
    """Return what a program prints; if it fails, raise ProviderError with ``failure`` and why."""
    try:
        return subprocess.run(command, env=env, capture_output=True, timeout=_DEADLINE_S, check=True).stdout
    except subprocess.CalledProcessError as error:
        raise ProviderError(f"{failure}: {error.stderr.decode(errors='replace').strip()[-300:]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProviderError(f"{failure}: {error}") from error


def _unpack(packed: bytes, folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        tar.extractall(folder, filter="tar")
