"""What a repair may be made of, and the tests that are turned round beside the real ones."""

from __future__ import annotations

import importlib
import json
import types

import pytest
from repair_samples import row, task

from envs.repair import drawing, harmless, libraries, turned
from envs.repair.accept import accept
from envs.repair.drawing import Bug
from envs.repair.env import RepairEnv, Setup
from envs.repair.grading import Options
from envs.repair.instance import Instance
from envs.repair.patches import diff
from envs.repair.providers import InlineFiles
from envs.repair.score import grade
from envs.repair.source_rules import refusal
from envs.repair.workspace import Workspace
from envs.sandbox.types import Outcome

BEFORE = """
import functools
import os
import re
from shop.names import plus

@functools.total_ordering
class Version:
    def __init__(self, text): self.text = text
    def __eq__(self, other): return self.text == other.text

def cached(function):
    @functools.wraps(function)
    def inner(x): return plus(x, os.path.join("a", getattr(x, "y")))
    return inner
"""
REFUSED = {
    "import": [
        *(
            "import sys",
            "import os.path",
            "import calc",
            "from math import *",
            "from re import enum",
            "from . import x",
        ),
        *("from functools import wraps", "from shop.names import re", "from collections import abc"),
    ],
    "name": [
        *("exec('1')", "run = eval", "globals()", "open('/x')", "vars(x)", "raise SystemExit", "ｅxec('1')"),
        *("getattr(x, name)", "type(type(x))('A', (int,), {})", "x.gi_frame.f_back", "int.mro()", "x.sys.modules"),
        *("'{0.x}'.format(x)", "'{:{}}'.format(x, y)", "text.format(x)", "str.format('{0.x}', x)", "'a'.format_map(x)"),
        "match x:\n    case object(gi_frame=y): pass",
    ],
    "module": [
        *(
            "f(re)",
            "for re in x: pass",
            "re._cache",
            "re.copyreg",
            "os.system('x')",
            "functools.wraps(f)(g)",
            "functools.update_wrapper(f, g)",
        ),
        *(
            "import collections.abc\ncollections.abc.Set.x, collections.sysconfig",
            "plus.code",
            "import math as m\nn = m",
        ),
    ],
    "dunder": [
        *("x.__class__", "__builtins__", "class Same:\n    def __eq__(self, other): return True", "__eq__ = 1"),
        *("match x:\n    case object(__class__=y): pass", "f(__x=1)", "def f(__x): pass", "global __name__"),
        *("from itertools import count as __len__", "dataclass(eq=False)", "field(compare=False)"),
    ],
    "assignment": [
        *("plus.y = 1", "del plus.y", "for plus.y in z: pass", "with x as plus.z: pass", "[x for plus.y in z]"),
        *("plus.y.z += 1", "plus.all[0].x = 1", "a, plus.c = d", "import math\nmath.isclose = f"),
    ],
    "class": ["class Answer(int): pass", "class Late(str, Version): pass"],
    "syntax": [
        "def (:",
        "(" * 300,
        "-" * 9000 + "1",
        "a." * 3000 + "b",
        b"x = '\\ud800'".decode("unicode_escape"),
    ],
}
ALLOWED = [
    *("import math\nmath.isclose(1, 2)", "import collections.abc as c\nc.Mapping", "from itertools import pairwise"),
    *("import datetime\ndatetime.date.today()", "os.path.join(x, y, z)", "re.compile('x').match(y)", "f(plus)"),
    *("'{} {a:.2f} {0!r}'.format(x, a=1)", "f('{1}{0}'.format)", "format(x, '.2f')", "print(f'{x!r:>{y}}')"),
    *("self.late = 1", "f(key=len)", "getattr(x, 'y')", "books.open(x)", "class Broken(ValueError): pass"),
    *("class Late(Version): pass", "class Run(NamedTuple):\n    length: int"),
    "runs[-1].length += 1",
    "class Run:\n    def __len__(self): return 1",
]


@pytest.mark.parametrize(("reason", "code"), [(reason, code) for reason in REFUSED for code in REFUSED[reason]])
def test_what_a_repair_may_not_have(reason, code):
    found = refusal("calc.py", BEFORE + code, [BEFORE])
    assert found
    assert found.reason == reason
    assert found.message.startswith("calc.py ")
    assert "\n" not in found.message


@pytest.mark.parametrize("code", ALLOWED)
def test_what_a_repair_may_have(code):
    assert refusal("calc.py", BEFORE + code, [BEFORE]) is None


def test_what_the_reference_repair_uses_is_allowed():
    assert refusal("calc.py", "import socket\n", ["", "import socket\n"]) is None
    assert refusal("calc.py", "import math\n", ["def (:"]) is None  # a file that was broken to begin with


@pytest.mark.parametrize("cookie", ["utf-7", "rot13", "unicode_escape", "latin-1", "nonsense"])
def test_a_file_is_read_as_python_reads_it(cookie):
    """In another encoding a comment may be code."""
    found = refusal("calc.py", f"# coding: {cookie}\nx = 1\n", [])
    assert found
    assert found.reason == "syntax"


def test_the_harmless_names_exist_and_are_no_modules():
    for module, names in harmless.MODULES.items():
        found = {name: getattr(importlib.import_module(module), name) for name in names}
        assert not [name for name, value in found.items() if isinstance(value, types.ModuleType)]


@pytest.mark.parametrize("name", sorted(libraries.TESTS))
def test_every_bug_of_a_library_can_be_made_and_repaired(name):
    """One bug of each kind and file: neither its repair nor the way back is refused."""
    library = libraries.library(name)
    bugs = {(edit.path, edit.kind): Bug(name, (edit,)) for edit in drawing.library_edits(name)}
    for (path, _), bug in bugs.items():
        known = [bug.files()[path], library.files[path]]
        assert [refusal(path, text, known) for text in known] == [None, None]


# A file of a repository -> what stands in it, and whether the tests run it.
REPOSITORY = {
    "checks/test_all.py": ("import helped\nfrom shop.calc import add\nfrom shop import words", True),
    "checks/conftest.py": ("pytest_plugins = ['kit.fixtures']", True),
    "checks/helped.py": ("def read(:", True),
    "kit/fixtures/__init__.py": ("from . import near\nfrom .deep.last import *", True),
    "kit/fixtures/near.py": ("def later():\n    from ..far import x", True),
    "kit/fixtures/deep/last.py": ("from .... import above", True),
    "kit/far.py": ("import json, kit.fixtures", True),
    "src/shop/__init__.py": ("", True),
    "src/shop/words.py": ("import plain", True),
    "src/shop/calc.py": ("from . import parts", False),  # the reference repair changes it
    "src/shop/parts.py": ("", False),
    "src/shop/json.py": ("", False),
    "tools/other.py": ("import helped", False),
}


def test_what_the_tests_import_is_no_source_file():
    files = {path: text for path, (text, _) in REPOSITORY.items()}
    changed = {**files, "src/shop/calc.py": files["src/shop/calc.py"] + "\nadd = max"}
    tests = ["checks/test_all.py::test_add"]
    made = Instance.from_dict(
        {
            **row(),
            "files": files,
            "FAIL_TO_PASS": tests,
            "PASS_TO_PASS": [],
            "test_patch": "",
            "patch": diff(files, changed),
        }
    )
    with Workspace(made, InlineFiles()) as workspace:
        refused = {path: bool(workspace.refusal(path, "x = 1")) for path in files}
    assert refused == {path: run for path, (_, run) in REPOSITORY.items()}


def test_tests_that_come_with_the_instance_are_read_too():
    files = {path: text for path, (text, _) in REPOSITORY.items()}
    told = {"files": files, "FAIL_TO_PASS": ["checks/test_all.py::test_add"], "PASS_TO_PASS": []}
    patches = {
        "patch": diff({"a.py": ""}, {"a.py": "x"}),
        "test_patch": diff(files, {**files, "checks/test_all.py": "import other"}),
    }
    with Workspace(
        Instance.from_dict({**row(), **told, **patches, "files": {**files, "a.py": ""}}), InlineFiles()
    ) as workspace:
        assert workspace.refusal("tools/other.py", "x = 1")
        assert not workspace.refusal("src/shop/words.py", "x = 1")


TESTS = """
import pytest
from calc import Sum, add, each

def test_equal():
    assert add(1, 2) == 3

def test_each():
    for total in each([1, 2], 1):
        assert total > 1

def test_own():
    assert Sum(1, 2) == Sum(1, 2)

def test_text():
    assert str(Sum(1, 2)) == "3"

def test_raises():
    with pytest.raises(TypeError):
        add(1, None)

def test_loose():
    for _ in []:
        assert 0
"""
RIGHT = """
class Sum:
    def __init__(self, a, b): self.total = add(a, b)
    def __eq__(self, other): return isinstance(other, Sum) and self.total == other.total
    def __str__(self): return str(self.total)

def add(a, b):
    return a + b

def each(numbers, more):
    for number in numbers:
        yield add(number, more)
"""
NAMES = ("equal", "each", "own", "text", "raises", "loose")


def made(right: str = RIGHT, wrong: str = "a - b") -> Instance:
    return Instance.from_dict(
        {
            **row(),
            "files": {"calc.py": right.replace("a + b", wrong), "tests/test_calc.py": TESTS},
            "FAIL_TO_PASS": [f"tests/test_calc.py::test_{name}" for name in ("equal", "text", "each")],
            "PASS_TO_PASS": [f"tests/test_calc.py::test_{name}" for name in ("own", "raises", "loose")],
            "patch": "--- a/calc.py\n+++ b/calc.py\n@@ -8 +8 @@\n-    return a - b\n+    return a + b\n",
        }
    )


@pytest.fixture(scope="module")
def accepted(tmp_path_factory):
    """The instance as it is played, after the tests that pass both ways were found."""
    folder = tmp_path_factory.mktemp("game")
    record = accept(made(), folder, Setup(), name="swegym")
    return Instance.from_dict(json.loads((folder / record.file).read_text()))


def graded(instance: Instance, text: str):
    with Workspace(instance, InlineFiles()) as workspace:
        workspace.write("calc.py", text)
        return grade(workspace, Options())


def test_tests_that_pass_both_ways_are_found_when_an_instance_is_accepted(accepted):
    assert accepted.meta["unturned"] == ["tests/test_calc.py::test_loose"]
    assert len(accepted.turned) == 5


def test_a_repair_and_half_a_repair_are_paid_as_before(accepted):
    assert graded(accepted, RIGHT).resolved
    half = graded(accepted, RIGHT.replace("a + b", "3"))
    assert (half.outcome, half.counts.f2p_passed, half.counts.p2p_passed) == (Outcome.FINISHED, 3, 2)


@pytest.mark.parametrize(
    ("old", "new", "caught"),
    [
        ("return isinstance(other, Sum) and self.total == other.total", "return True", "own"),
        ("self.total == other.total", "True", "own"),
        ("for number in numbers:", "for number in []:", "each"),
        ("    return a + b", "    s = Sum.of(a)\n    return s", ""),
    ],
)
def test_what_passes_turned_round_too_is_paid_nothing(accepted, old, new, caught):
    result = graded(accepted, RIGHT.replace(old, new))
    if not caught:
        assert result.counts.ratio == 0.0
        return
    assert result.outcome is Outcome.TAMPERED
    assert result.detail == f"tests/test_calc.py::test_{caught} passed, and turned round it passed too"
    assert result.counts.pass_ratio == 0.0


def test_a_test_file_that_cannot_be_read_has_no_turned_copy():
    assert turned.files({"tests/test_a.py": "def (:", "tests/data.json": "{}"}) == {}


def test_a_refused_edit_is_an_invalid_action_that_says_why(tmp_path):
    env = RepairEnv()
    env.reset(task(tmp_path, Instance.from_dict(row())), 0)
    result = env.step("replace shop/calc.py: return a - b => return __import__('os')")
    assert (result.valid, result.info) == (False, {"refused": "dunder"})
    assert result.observation.text == "shop/calc.py line 5: a repair may not add __import__. Nothing was changed."
    assert env.step("submit").info["patch"] == ""
    env.close()
