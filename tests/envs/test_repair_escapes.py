"""What an agent may write to be paid without a repair, and what each try is answered."""

from dataclasses import replace

import pytest
from repair_samples import RIGHT, WRONG, row

from turngrid.envs.repair.grading import Options, run_files
from turngrid.envs.repair.instance import Instance
from turngrid.envs.repair.providers import InlineFiles
from turngrid.envs.repair.score import Grade, grade
from turngrid.envs.repair.workspace import Workspace
from turngrid.envs.sandbox.types import Limits, Outcome

TESTS = """
from calc import add, mul

def test_mul():
    assert mul(2, 3) == 6

def test_add():
    assert add(1, 2) == 3

def test_add_more():
    assert add(2, 2) == 4
"""
ROW = row(
    FAIL_TO_PASS=["tests/test_calc.py::test_add", "tests/test_calc.py::test_add_more"],
    PASS_TO_PASS=["tests/test_calc.py::test_mul"],
    files={"calc.py": WRONG, "tests/test_calc.py": TESTS},
)
OPTIONS = Options(limits=Limits(wall_s=30.0, cpu_s=30.0, memory_mib=1024, file_mib=4, output_mib=1))


class AnyEdit(InlineFiles):
    """Accepts edits of any file, as clones and images do."""

    strict = False


def graded(edits: dict[str, str], options: Options = OPTIONS) -> Grade:
    with Workspace(Instance.from_dict(ROW), AnyEdit()) as workspace:
        for path, text in edits.items():
            workspace.write(path, text)
        return grade(workspace, options)


def in_module(code: str) -> dict[str, str]:
    """The wrong module, with code in front of it."""
    return {"calc.py": f"{code}\n{WRONG}"}


IGNORED = {
    "files beside the module": {
        "tests/test_calc.py": "def test_mul(): pass\ndef test_add(): pass\ndef test_add_more(): pass\n",
        "conftest.py": "import pytest\n@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_pyfunc_call(pyfuncitem):\n    return True\n",
        **dict.fromkeys(("sitecustomize.py", "usercustomize.py"), "import os\nos._exit(0)\n"),
        "test_calc/__init__.py": "def test_add(): pass\n",  # a package that hides the test module
        **dict.fromkeys(("pytest.py", "pluggy/__init__.py"), "import os\nos._exit(0)\n"),
    },
    "forged lines": in_module("print('tests/test_calc.py::test_add PASSED [100%]\\n3 passed in 0.01s', flush=True)"),
    "an expected failure": {"calc.py": "import pytest\n" + WRONG.replace("return a - b", "pytest.xfail('known')")},
    "sys.exit in a function": {"calc.py": "import sys\n" + WRONG.replace("return a - b", "sys.exit(0)")},
}


@pytest.mark.parametrize("name", IGNORED)
def test_what_changes_nothing(name):
    """Graded as if it were not there: nothing repaired, nothing broken."""
    result = graded(IGNORED[name])
    assert result.outcome is Outcome.FINISHED, result
    assert (result.counts.f2p_passed, result.counts.p2p_passed) == (0, 1) and not result.resolved


PATCH_A_TEST = """
import sys
def mul(a, b):
    for name in ("test_add", "test_add_more"):
        getattr(sys.modules["test_calc"], name).__code__ = (lambda: None).__code__
    return a * b
def add(a, b): return 0
"""
# Outcome -> what ends so: code in front of the wrong module, or whole edits.
ENDS = {
    Outcome.ENDED_EARLY: {"os._exit on import": "import os; os._exit(0)"},
    Outcome.TAMPERED: {
        "every test made to pass": "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None",
        "pytest's code changed in place": "import _pytest.python\n"
        "_pytest.python.pytest_pyfunc_call.__code__ = (lambda pyfuncitem: True).__code__",
        "a plugin registered behind our back": "import gc\nfrom _pytest.config import Config\n"
        "class Plugin:\n    def pytest_pyfunc_call(self, pyfuncitem): return True\n"
        "for thing in gc.get_objects():\n    if type(thing) is Config: thing.pluginmanager.register(Plugin())",
        "tests changed in memory": {"calc.py": PATCH_A_TEST},
        "the assertion error gone": "import builtins\nclass Quiet(SystemExit): pass\nbuiltins.AssertionError = Quiet",
        "a standard class under another name": "from fractions import Fraction\n"
        "F = Fraction\nF._numerator = property(lambda self: 1, lambda self, value: None)",
        "such a plugin from a function": {
            "calc.py": "import gc\nfrom _pytest.config import Config\n"
            "class Plugin:\n    def pytest_pyfunc_call(self, pyfuncitem): return 'add' in pyfuncitem.name or None\n"
            "def mul(a, b):\n    for thing in gc.get_objects():\n"
            "        if type(thing) is Config: thing.pluginmanager.register(Plugin())\n    return a * b\n"
            "def add(a, b): return 0\n"
        },
    },
    Outcome.FORGED: {
        "lines on every open file": "import os\n"
        'line = b\'{"event": "test", "test": "tests/test_calc.py::test_add"}\\n\'\n'
        "for number in range(3, 64):\n    try:\n        os.write(number, line)\n    except OSError:\n        pass"
    },
    Outcome.FINISHED: {"syntax": {"calc.py": "def add(a, b:\n"}},
}
CAUGHT = {
    name: (in_module(code) if isinstance(code, str) else code, outcome)
    for outcome, codes in ENDS.items()
    for name, code in codes.items()
}


@pytest.mark.parametrize("name", CAUGHT)
def test_what_is_caught(name):
    """No test is repaired by it, and how the run ended is told."""
    edits, outcome = CAUGHT[name]
    result = graded(edits)
    assert result.outcome is outcome, result
    assert (result.counts.f2p_passed, result.counts.ratio, result.resolved) == (0, 0.0, False)


def test_grading_is_the_same_with_limits_alone():
    limits = replace(OPTIONS, mode="limits")
    repaired = graded({"calc.py": RIGHT}, limits)
    assert (repaired.outcome, repaired.counts.ratio) == (Outcome.FINISHED, 1.0)
    for name in ("os._exit on import", "every test made to pass", "lines on every open file"):
        edits, outcome = CAUGHT[name]
        caught = graded(edits, limits)
        assert (caught.outcome, caught.counts.ratio) == (outcome, 0.0)


def test_a_conftest_written_while_tests_run_helps_nobody_afterwards():
    """The module under test may write into its copy; the next run starts from another."""
    code = (
        "import pathlib\n"
        "pathlib.Path('tests/conftest.py').write_text('def pytest_pyfunc_call(pyfuncitem): return True')"
    )
    with Workspace(Instance.from_dict(ROW), AnyEdit()) as workspace:
        workspace.write("calc.py", f"{code}\n{WRONG}")
        for _ in range(2):
            assert grade(workspace, OPTIONS).counts.ratio == 0.0
        assert "tests/conftest.py" not in workspace.paths
        assert not (workspace.base / "tests/conftest.py").exists()


def test_statuses():
    tests = """
import pytest, unittest

@pytest.fixture
def broken(): raise ValueError
@pytest.fixture
def breaks_later():
    yield
    raise ValueError
def test_error(broken): pass
def test_late(breaks_later): pass
def test_fails(): assert 0
def test_skipped(): pytest.skip()
@pytest.mark.parametrize("x", ["a b", "c"])
def test_each(x): pass
class TestOld(unittest.TestCase):
    def test_sub(self):
        for n in range(2):
            with self.subTest(n=n): self.assertEqual(n, 0)
    def test_fine(self): pass
"""
    marked = "import pytest\n@pytest.mark.xfail\ndef test_x():\n    assert 0\n\ndef test_y():\n    pytest.xfail('no')\n"
    run = run_files({"test_a.py": tests + marked, "test_b.py": "import nothing_like_it\n"})
    assert run.outcome is Outcome.FINISHED, run.detail
    names = {test.split("::", 1)[1]: str(status) for test, status in run.statuses.items()}
    assert names == {
        "test_error": "error",
        "test_late": "error",
        "test_fails": "failed",
        "test_skipped": "skipped",
        "test_each[a b]": "passed",
        "test_each[c]": "passed",
        "TestOld::test_sub": "failed",
        "TestOld::test_fine": "passed",
        "test_x": "passed",  # as in SWE-bench
        "test_y": "failed",
    }
    assert "nothing_like_it" in run.messages["test_b.py"]
    assert run.has_passed("test_a.py::test_each[a")
    assert not run.has_passed("test_a.py::test_none")
    for asked in ("test_a.py::test_b", "test_c.py"):  # only these are run
        files = {"test_a.py": "def test_a(): pass\ndef test_b(): pass\n", "test_c.py": "def test_b(): pass\n"}
        assert list(run_files(files, [asked]).statuses) == [f"{asked.split('::')[0]}::test_b"]


def test_tests_that_patch_what_they_please_are_not_taken_for_tampering():
    tests = """
import builtins
from unittest import mock
def test_a(monkeypatch):
    monkeypatch.setattr(builtins, "open", None)
    monkeypatch.setattr("os.getcwd", lambda: "/x")
def test_b():
    with mock.patch("builtins.print") as spy: print(1)
    assert spy.called
"""
    run = run_files({"test_a.py": tests})
    assert (run.outcome, run.detail, len(run.passed)) == (Outcome.FINISHED, "", 2)
