"""Running a repository's tests in the sandbox, and what their results say about a repair.

A result is believed only if it came through the runner's sealed report; a test that did not finish has failed.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from envs.repair.report import Report, Status
from envs.sandbox import sandbox
from envs.sandbox.scratch import prefix
from envs.sandbox.types import Completed, Level, Limits, Outcome

# The folder that a command starts in holds code under test: nothing is imported from there before the runner is ready.
BOOT = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; import json; request = json.loads(sys.stdin.readline());"
    " scope = {'__name__': 'turngrid_runner'}; exec(compile(request.pop('runner'), '<runner>', 'exec'), scope);"
    " scope['main'](request)"
)
_RUNNER = Path(__file__).with_name("runner.py").read_text()
_CANARIES = 3


@dataclass(frozen=True)
class TestRun:
    """``statuses``: pytest id -> what became of it, for every test that was collected (none where the run cannot be
    believed). ``messages``: why a test failed, or a file (by its path) could not be collected. ``detail`` says more
    about ``outcome``."""

    __test__ = False  # for pytest: not a test class

    statuses: Mapping[str, Status]
    messages: Mapping[str, str]
    outcome: Outcome
    detail: str
    level: Level
    seconds: float

    @property
    def passed(self) -> list[str]:
        return [test for test, status in self.statuses.items() if status is Status.PASSED]

    def has_passed(self, test: str) -> bool:
        """True if that test passed; an id that was cut at a space stands for all the tests that begin with it."""
        if test in self.statuses:
            return self.statuses[test] is Status.PASSED
        meant = [status for name, status in self.statuses.items() if name.split(" ")[0] == test]
        return bool(meant) and all(status is Status.PASSED for status in meant)


@dataclass(frozen=True)
class Options:
    """How tests are run. ``autoload`` lets pytest take the plugins that are installed beside it (real projects need
    theirs; ours need none and start faster)."""

    mode: str = "auto"
    python: str = sys.executable
    limits: Limits = field(default_factory=Limits)
    autoload: bool = False


def run_tests(layers: Sequence[Path], tests: Iterable[str] = (), options: Options | None = None) -> TestRun:
    """Run pytest on a copy of ``layers`` (folders laid over each other) and say what became of each test.

    ``tests`` are pytest ids, or files or folders; all tests of the repository if empty. The folders themselves are
    never changed.

    Raises:
        SandboxError: the sandbox cannot be built.
    """
    options = options or Options()
    tests = list(tests)
    key, request = prepare(tests, options)
    done = sandbox.run(
        [options.python, "-s", "-B", "-c", BOOT],  # not -I, which forgets PYTHONHASHSEED: sets would print differently
        layers,
        limits=options.limits,
        given=request,
        visible=sandbox.interpreter_paths(options.python),
        mode=options.mode,
    )
    return understand(done, key, tests)


def run_files(files: Mapping[str, str], tests: Iterable[str] = (), options: Options | None = None) -> TestRun:
    """``run_tests`` on a repository given as path -> text."""
    with tempfile.TemporaryDirectory(prefix=prefix()) as folder:
        write_files(Path(folder) / "repo", files)
        return run_tests([Path(folder) / "repo"], tests, options)


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write path -> text below ``folder``, readable by the user that runs tests."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())


def prepare(tests: Sequence[str], options: Options) -> tuple[bytes, bytes]:
    """The key of a run, and what its runner is given on standard input."""
    key = os.urandom(32)
    wanted = [test for test in tests if "::" in test]
    request = {
        "runner": _RUNNER,
        "key": key.hex(),
        "files": list(dict.fromkeys(test.split("::", 1)[0] for test in tests)),
        "wanted": wanted if len(wanted) == len(tests) else [],
        "autoload": options.autoload,
        "canaries": _CANARIES,
        "seed": int.from_bytes(os.urandom(4), "big"),
    }
    return key, json.dumps(request).encode() + b"\n"


def understand(done: Completed, key: bytes, wanted: Sequence[str] = ()) -> TestRun:
    """From a finished command to the results of its tests, which are among ``wanted`` unless that names whole files."""
    report = Report(key, wanted)
    report.read(done.stdout, whole=done.outcome is Outcome.FINISHED)
    outcome, detail = report.outcome(done)
    believed = outcome not in (Outcome.FORGED, Outcome.TAMPERED)
    statuses = report.statuses if believed else dict.fromkeys(report.statuses, Status.FAILED)
    return TestRun(statuses, report.messages, outcome, detail, done.level, done.seconds)
