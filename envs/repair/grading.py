"""Run a repository's tests in the sandbox and read the sealed report of their results.

A result is believed only if it came through the runner's sealed report. A test that did not finish
has failed.
"""

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

from turngrid.envs.sandbox import sandbox
from turngrid.envs.sandbox.types import Completed, Limits, Outcome

# The command starts in a folder of code under test, which must not be imported before the runner.
BOOT = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; import json; request = json.loads(sys.stdin.readline());"
    " scope = {'__name__': 'turngrid_runner'}; exec(compile(request.pop('runner'), '<runner>', 'exec'), scope);"
    " scope['main'](request)"
)
_RUNNER = Path(__file__).with_name("runner.py").read_text()
_CANARIES = 3
_UNSIGNED = (Outcome.FORGED, "the report has a line that was not signed")


class Status(StrEnum):
    """Result of one test; only ``PASSED`` counts."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class TestRun:
    """The results of one run of tests.

    Attributes:
        statuses: pytest id -> result of each collected test.
        messages: why a test failed, or why a file (by its path) could not be collected.
        detail: more about ``outcome``.
    """

    __test__ = False  # for pytest: not a test class

    statuses: Mapping[str, Status]
    messages: Mapping[str, str]
    outcome: Outcome
    detail: str

    @property
    def passed(self) -> list[str]:
        return [test for test, status in self.statuses.items() if status is Status.PASSED]

    def has_passed(self, test: str) -> bool:
        """Return whether a test passed; an id cut at a space means all tests that begin so."""
        if test in self.statuses:
            return self.statuses[test] is Status.PASSED
        meant = [status for name, status in self.statuses.items() if name.split(" ")[0] == test]
        return bool(meant) and all(status is Status.PASSED for status in meant)


@dataclass(frozen=True)
class Options:
    """Settings of a test run.

    Attributes:
        autoload: let pytest load installed plugins; real projects need theirs.
    """

    mode: str = "auto"
    python: str = sys.executable
    limits: Limits = field(default_factory=Limits)
    autoload: bool = False


def run_tests(layers: Sequence[Path], tests: Iterable[str], options: Options) -> TestRun:
    """Run pytest on a copy of ``layers``, folders laid over each other.

    Args:
        tests: pytest ids, or files or folders; all tests of the repository if empty.

    Raises:
        SandboxError: the sandbox cannot be built.
    """
    tests = list(tests)
    key, request = prepare(tests, options)
    done = sandbox.run(
        [options.python, "-s", "-B", "-c", BOOT],  # not -I, which ignores PYTHONHASHSEED: sets would print differently
        layers,
        limits=options.limits,
        given=request,
        visible=sandbox.interpreter_paths(options.python),
        at=sandbox.level(options.mode),
    )
    return understand(done, key, tests)


def run_files(files: Mapping[str, str], tests: Iterable[str] = (), options: Options | None = None) -> TestRun:
    """Run tests on a repository given as text by path."""
    with tempfile.TemporaryDirectory(prefix=sandbox.prefix()) as folder:
        write_files(Path(folder) / "repo", files)
        return run_tests([Path(folder) / "repo"], tests, options or Options())


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write path -> text below ``folder``, readable by the user that runs tests."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())


def prepare(tests: Sequence[str], options: Options) -> tuple[bytes, bytes]:
    """Return the key of a run, and the standard input of its runner."""
    key = os.urandom(32)
    request = {
        "runner": _RUNNER,
        "key": key.hex(),
        "files": list(dict.fromkeys(test.split("::", 1)[0] for test in tests)),
        "wanted": _ids(tests),
        "autoload": options.autoload,
        "canaries": _CANARIES,
        "seed": int.from_bytes(os.urandom(4), "big"),
    }
    return key, json.dumps(request).encode() + b"\n"


def understand(done: Completed, key: bytes, tests: Sequence[str] = ()) -> TestRun:
    """Return the results of a finished command; a result of a test not asked for is tampering."""
    report = Report(key, tests)
    report.read(done.stdout, whole=done.outcome is Outcome.FINISHED)
    outcome, detail = report.outcome(done)
    believed = outcome not in (Outcome.FORGED, Outcome.TAMPERED)
    statuses = report.statuses if believed else dict.fromkeys(report.statuses, Status.FAILED)
    return TestRun(statuses, report.messages, outcome, detail)


def _ids(tests: Sequence[str]) -> list[str]:
    """Return the asked ids; [] if whole files are asked for."""
    return list(tests) if all("::" in test for test in tests) else []


class Report:
    """The records of one run, each checked for its seal and its number."""

    def __init__(self, key: bytes, tests: Sequence[str] = ()) -> None:
        self._key, self._count, self._ended = key, 0, False
        self._wanted = set(_ids(tests))
        self._problem: tuple[Outcome, str] | None = None
        self._xfail: dict[str, bool] = {}
        self._running = ""
        self._done: set[str] = set()
        self.statuses: dict[str, Status] = {}
        self.messages: dict[str, str] = {}

    def read(self, data: bytes, *, whole: bool) -> None:
        """Read the runner's output; ``whole``: the command finished, so the last line must end."""
        lines = data.split(b"\n")
        for line in lines[:-1]:
            record = self._opened(line)
            if record is None:
                self._fail(*_UNSIGNED)
                return
            self._take(record)
        if whole and lines[-1]:
            self._fail(*_UNSIGNED)

    def _fail(self, outcome: Outcome, detail: str) -> None:
        self._problem = self._problem or (outcome, detail)

    def _opened(self, line: bytes) -> dict[str, Any] | None:
        seal, _, text = line.partition(b" ")
        if not hmac.compare_digest(hmac.new(self._key, text, hashlib.sha256).hexdigest().encode(), seal):
            return None
        record = json.loads(text)
        self._count += 1
        return record if record["n"] == self._count - 1 and not self._ended else None

    def _take(self, record: dict[str, Any]) -> None:
        match record["event"]:
            case "collected":
                self._collected(record["tests"])
            case "uncollected":
                self.messages[record["file"]] = record["message"]
            case "start":
                self._running = record["test"]
            case "test":
                self._test(record)
            case "tampered":
                self._fail(Outcome.TAMPERED, record["what"])
            case "unfinished":
                self._fail(Outcome.ENDED_EARLY, record["what"])
            case "end":
                self._ended = True

    def _collected(self, tests: list[tuple[str, bool]]) -> None:
        self._xfail = dict(tests)
        self.statuses = dict.fromkeys(self._xfail, Status.FAILED)
        for test in self.statuses:
            if self._wanted and not self._wanted.intersection((test, test.split(" ")[0])):
                self._fail(Outcome.TAMPERED, f"{test} reported, and was not requested")

    def _test(self, record: dict[str, Any]) -> None:
        test = record["test"]
        if test in self._done or test not in self.statuses:
            self._fail(Outcome.TAMPERED, f"{test} was reported twice or not collected")
            return
        self._done.add(test)
        self._running = ""
        self.statuses[test] = _status(record["phases"], self._xfail[test])
        if record["message"]:
            self.messages[test] = record["message"]

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
    """Return a test's result from pytest's phases.

    ``xfailed`` counts as passed only if the test itself is marked so: code under test can call
    ``pytest.xfail`` too.
    """
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
