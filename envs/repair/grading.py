"""Running a repository's tests in the sandbox, and what their results say about a repair.

A result is believed only if it came through the runner's sealed report; a test that did not finish has failed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from envs.sandbox import sandbox
from envs.sandbox.types import Completed, Level, Limits, Outcome

# The folder that a command starts in holds code under test: nothing is imported from there before the runner is ready.
BOOT = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; import json; request = json.loads(sys.stdin.readline());"
    " scope = {'__name__': 'turngrid_runner'}; exec(compile(request.pop('runner'), '<runner>', 'exec'), scope);"
    " scope['main'](request)"
)
_RUNNER = Path(__file__).with_name("runner.py").read_text()
_CANARIES = 3


class Status(StrEnum):
    """What became of one test; only ``PASSED`` counts."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"


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
    key, request = prepare(list(tests), options)
    done = sandbox.run(
        [options.python, "-s", "-B", "-c", BOOT],
        layers,
        limits=options.limits,
        given=request,
        visible=sandbox.interpreter_paths(options.python),
        mode=options.mode,
    )
    return understand(done, key)


def run_files(files: Mapping[str, str], tests: Iterable[str] = (), options: Options | None = None) -> TestRun:
    """``run_tests`` on a repository given as path -> text."""
    with tempfile.TemporaryDirectory(prefix="turngrid-files-") as folder:
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


def understand(done: Completed, key: bytes) -> TestRun:
    """From a finished command to its tests' results."""
    report = _Report(key)
    report.read(done.stdout, whole=done.outcome is Outcome.FINISHED)
    outcome, detail = report.outcome(done)
    believed = outcome not in (Outcome.FORGED, Outcome.TAMPERED)
    statuses = report.statuses if believed else dict.fromkeys(report.statuses, Status.FAILED)
    return TestRun(statuses, report.messages, outcome, detail, done.level, done.seconds)


class _Report:
    """The records of one run, checked one by one."""

    def __init__(self, key: bytes) -> None:
        self._key, self._count, self._ended = key, 0, False
        self._problem: tuple[Outcome, str] | None = None
        self._xfail: dict[str, bool] = {}
        self._running = ""
        self.statuses: dict[str, Status] = {}
        self.messages: dict[str, str] = {}
        self._done: set[str] = set()

    def read(self, data: bytes, *, whole: bool) -> None:
        lines = data.split(b"\n")
        for line in lines[:-1]:
            record = self._opened(line)
            if record is None:
                self._problem = self._problem or (Outcome.FORGED, "the report has a line that was not signed")
                return
            getattr(self, "_" + record["event"])(record)
        if whole and lines[-1]:
            self._problem = self._problem or (Outcome.FORGED, "the report has a line that was not signed")

    def _opened(self, line: bytes) -> dict[str, Any] | None:
        seal, _, text = line.partition(b" ")
        if not hmac.compare_digest(hmac.new(self._key, text, hashlib.sha256).hexdigest().encode(), seal):
            return None
        record = json.loads(text)
        self._count += 1
        return record if record["n"] == self._count - 1 and not self._ended else None

    def _collected(self, record: dict[str, Any]) -> None:
        self._xfail = {test: bool(xfail) for test, xfail in record["tests"]}
        self.statuses = dict.fromkeys(self._xfail, Status.FAILED)

    def _start(self, record: dict[str, Any]) -> None:
        self._running = record["test"]

    def _test(self, record: dict[str, Any]) -> None:
        test = record["test"]
        if test in self._done or test not in self.statuses:
            self._tampered({"what": f"{test} was reported twice or from nowhere"})
            return
        self._done.add(test)
        self._running = ""
        self.statuses[test] = _status(record["phases"], self._xfail[test])
        if record["message"]:
            self.messages[test] = record["message"]

    def _uncollected(self, record: dict[str, Any]) -> None:
        self.messages[record["file"]] = record["message"]

    def _tampered(self, record: dict[str, Any]) -> None:
        self._problem = self._problem or (Outcome.TAMPERED, record["what"])

    def _unfinished(self, record: dict[str, Any]) -> None:
        self._problem = self._problem or (Outcome.ENDED_EARLY, record["what"])

    def _end(self, record: dict[str, Any]) -> None:
        self._ended = True

    def outcome(self, done: Completed) -> tuple[Outcome, str]:
        during = f" during {self._running}" if self._running else ""
        if self._problem and self._problem[0] is not Outcome.ENDED_EARLY:
            return self._problem
        if done.outcome is not Outcome.FINISHED:
            return done.outcome, f"{done.outcome.value.replace('_', ' ')}{during}"
        if not self._ended:
            printed = done.stderr.decode(errors="replace").strip().splitlines()
            why = f": {printed[-1][:200]}" if printed and not self.statuses else ""
            return Outcome.ENDED_EARLY, f"the process was left with status {done.code}{during}{why}"
        return self._problem or (Outcome.FINISHED, "")


def _status(phases: Mapping[str, str], xfail: bool) -> Status:
    """From pytest's phases. ``xfail`` counts as passed only where the test itself is marked so: code under test can
    call ``pytest.xfail`` too."""
    setup, call, teardown = (phases.get(name, "") for name in ("setup", "call", "teardown"))
    if xfail and "xfailed" in (setup, call):
        return Status.PASSED
    if "failed" in (setup, teardown):
        return Status.ERROR
    if call == "failed":
        return Status.FAILED
    if setup == call == teardown == "passed":
        return Status.PASSED
    return Status.SKIPPED if "skipped" in (setup, call) else Status.FAILED
