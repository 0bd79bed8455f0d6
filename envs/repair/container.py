"""Repositories that come as container images, one an instance, with all that their tests need installed.

The engine's own command line is used (docker or podman); a container has no network, no privileges and the sandbox's
limits, and is removed after each run.
"""

from __future__ import annotations

import functools
import io
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from envs.repair.grading import BOOT, Options, TestRun, prepare, understand
from envs.repair.instance import Instance
from envs.repair.providers import ProviderError, RepoProvider
from envs.sandbox.types import Completed, Level, Limits
from envs.sandbox.watch import Watch

ENGINES = ("docker", "podman")
_ENGINE_DEADLINE_S = 600.0


@dataclass(frozen=True)
class ContainerImage(RepoProvider):
    """``image`` is a template with ``{id}`` (the instance's name in lower case, ``__`` as ``_s_``, as the published
    images are called), ``{instance_id}`` and ``{repo}``. ``folder`` is where the repository lies in the image, already
    at the instance's commit, and ``python`` the interpreter that has its packages. Nothing is pulled."""

    image: str
    folder: str = "/testbed"
    python: str = "/opt/miniconda3/envs/testbed/bin/python"
    name: ClassVar[str] = "container"

    def level(self, options: Options) -> Level:
        return Level.CONTAINER

    def image_of(self, instance: Instance) -> str:
        name = instance.instance_id
        return self.image.format(id=name.lower().replace("__", "_s_"), instance_id=name, repo=instance.repo)

    def checkout(self, instance: Instance, folder: Path) -> None:
        container = self._create(instance, [], Limits())
        try:
            packed = _engine("cp", f"{container}:{self.folder}/.", "-")
        finally:
            _engine("rm", "-f", container)
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            tar.extractall(folder, filter="tar")

    def run_tests(self, instance: Instance, layers: Sequence[Path], tests: Iterable[str], options: Options) -> TestRun:
        tests = list(tests)
        key, request = prepare(tests, Options(options.mode, self.python, options.limits, autoload=True))
        container = self._create(instance, [self.python, "-s", "-B", "-c", BOOT], options.limits)
        try:
            for layer in layers[1:]:  # the first is what the image has
                _engine("cp", f"{layer}/.", f"{container}:{self.folder}")
            return understand(_start(container, request, options.limits), key, tests)
        finally:
            _engine("rm", "-f", container)

    def _create(self, instance: Instance, command: list[str], limits: Limits) -> str:
        walls = ["--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--pull=never"]
        sizes = [f"--memory={limits.memory_mib}m", f"--pids-limit={limits.processes}", f"--workdir={self.folder}"]
        variables = ["--env=PYTHONHASHSEED=0", "--env=PYTHONDONTWRITEBYTECODE=1", "--env=HOME=/tmp"]
        created = _engine("create", "-i", *walls, *sizes, *variables, self.image_of(instance), *(command or ["true"]))
        return created.decode().split()[-1]


def _start(container: str, request: bytes, limits: Limits) -> Completed:
    begun = time.monotonic()
    with subprocess.Popen(
        [engine(), "start", "-a", "-i", container],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        watch = Watch(process, limits, mark="")
        outcome = watch.run(request)
    spent = time.monotonic() - begun
    return Completed(outcome, process.returncode, bytes(watch.stdout), bytes(watch.stderr), spent, Level.CONTAINER)


@functools.cache
def engine() -> str:
    """The engine's program, once it has answered.

    Raises:
        ProviderError: no engine is installed, or its service does not answer.
    """
    found = [name for name in ENGINES if shutil.which(name)]
    for name in found:
        if subprocess.run([name, "info"], capture_output=True, timeout=60, check=False).returncode == 0:
            return name
    why = f"{' and '.join(found)} is installed, but its service does not answer" if found else "none is installed"
    raise ProviderError(f"env.provider=container needs {' or '.join(ENGINES)}: {why}")


def _engine(*arguments: str) -> bytes:
    try:
        done = subprocess.run([engine(), *arguments], capture_output=True, timeout=_ENGINE_DEADLINE_S, check=False)
    except subprocess.TimeoutExpired as late:
        raise ProviderError(f"{engine()} {arguments[0]} took longer than {_ENGINE_DEADLINE_S:g} s") from late
    if done.returncode:
        raise ProviderError(f"{engine()} {arguments[0]}: {done.stderr.decode(errors='replace').strip()[-300:]}")
    return done.stdout
