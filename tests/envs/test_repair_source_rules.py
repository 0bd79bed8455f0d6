"""What a repair may contain, read from its source before any of it runs."""

import importlib
import types

import pytest
from repair_samples import row, task

from turngrid.envs.registry import make_environment
from turngrid.envs.repair import bugs, harmless
from turngrid.envs.repair.instance import Instance
from turngrid.envs.repair.patches import diff
from turngrid.envs.repair.providers import InlineFiles
from turngrid.envs.repair.source_rules import refusal
from turngrid.envs.repair.workspace import Workspace

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
# Ways to the caller's frame, to files, to the tests, to text that is run, out of the process.
NOT_LISTED = (
    *("sys", "inspect", "traceback", "contextlib", "gc", "signal", "threading", "unittest", "unittest.mock", "pytest"),
    *("importlib", "pkgutil", "pickle", "site", "timeit", "posix", "atexit", "ctypes", "pathlib", "builtins", "codecs"),
    *("py_compile", "hmac", "subprocess", "multiprocessing", "socket", "_pytest.python"),
)
REFUSED = {
    "import": [
        *(f"import {name}" for name in NOT_LISTED),
        *(f"from {name}" for name in ("string import Formatter", "operator import attrgetter", "site import *")),
        *(f"from {name}" for name in ("typing import get_type_hints", "functools import singledispatch")),
        *("import os.path", "import calc", "from math import *", "from re import enum"),
        "from . import x",
        *("from functools import wraps", "from shop.names import re", "from collections import abc"),
    ],
    "name": [
        *("exec('1')", "run = eval", "globals()", "open('/x')", "vars(x)", "raise SystemExit", "ｅxec('1')"),
        *("x.cr_frame", "x.ag_frame", "x.tb_frame", "raise KeyboardInterrupt", "quit()", "compile('1', '', 'eval')"),
        *("functools.reduce(getattr, names, x)", "setattr(math, 'isclose', f)", "vars(object)"),
        *("getattr(x, name)", "type(type(x))('A', (int,), {})", "x.gi_frame.f_back", "int.mro()", "x.sys.modules"),
        *("'{0.x}'.format(x)", "'{:{}}'.format(x, y)", "text.format(x)", "str.format('{0.x}', x)", "'a'.format_map(x)"),
        "match x:\n    case object(gi_frame=y): pass",
    ],
    "module": [
        *("f(re)", "for re in x: pass", "re._cache", "re.copyreg", "os.system('x')", "functools.wraps(f)(g)"),
        *("functools.update_wrapper(f, g)", "plus.code", "import math as m\nn = m"),
        "import collections.abc\ncollections.abc.Set.x, collections.sysconfig",
    ],
    "dunder": [
        *(f"class Same:\n    def {name}(self, *given): return True" for name in ("__bool__", "__exit__")),
        *("def __getattr__(name): return name", "Counter.__eq__ = lambda self, other: True"),
        *("x.__traceback__", "x.__globals__", "x.__subclasses__()", "__loader__", "class A:\n    __annotations__ = {}"),
        *("x.__class__", "__builtins__", "class Same:\n    def __eq__(self, other): return True", "__eq__ = 1"),
        *("match x:\n    case object(__class__=y): pass", "f(__x=1)", "def f(__x): pass", "global __name__"),
        *("from itertools import count as __len__", "dataclass(eq=False)", "field(compare=False)"),
        *("field(**{'compare': False})", "class A(**{'metaclass': f}): pass"),
    ],
    "assignment": [
        "with x as (plus.y, z): pass",
        *("plus.y = 1", "del plus.y", "for plus.y in z: pass", "with x as plus.z: pass", "[x for plus.y in z]"),
        *("plus.y.z += 1", "plus.all[0].x = 1", "a, plus.c = d", "import math\nmath.isclose = f"),
    ],
    "class": ["class Answer(int): pass", "class Late(str, Version): pass"],
    "syntax": ["def (:", "(" * 300, "-" * 9000 + "1", "a." * 3000 + "b", b"x = '\\ud800'".decode("unicode_escape")],
}
ALLOWED = [
    *("import math\nmath.isclose(1, 2)", "import collections.abc as c\nc.Mapping", "from itertools import pairwise"),
    *("import datetime\ndatetime.date.today()", "os.path.join(x, y, z)", "re.compile('x').match(y)", "f(plus)"),
    *("'{} {a:.2f} {0!r}'.format(x, a=1)", "f('{1}{0}'.format)", "format(x, '.2f')", "print(f'{x!r:>{y}}')"),
    *("self.late = 1", "f(key=len)", "getattr(x, 'y')", "books.open(x)", "class Broken(ValueError): pass"),
    *("class Late(Version): pass", "class Run(NamedTuple):\n    length: int"),
    *("runs[-1].length += 1", "import math\nmath.fsum([a, b])", "import re\nre.sub('x', f, y, flags=re.DOTALL)"),
    "class Run:\n    def __len__(self): return 1",
]


@pytest.mark.parametrize("reason", REFUSED)
def test_what_a_repair_may_not_have(reason):
    for code in REFUSED[reason]:
        found = refusal("calc.py", BEFORE + code, [BEFORE])
        assert found and found.reason == reason, code
        assert found.message.startswith("calc.py ") and "\n" not in found.message


def test_what_a_repair_may_have():
    """Also what the reference repair uses."""
    assert [code for code in ALLOWED if refusal("calc.py", BEFORE + code, [BEFORE])] == []
    assert refusal("calc.py", "import socket\n", ["", "import socket\n"]) is None
    assert refusal("calc.py", "import math\n", ["def (:"]) is None  # a file that was broken to begin with


@pytest.mark.parametrize("cookie", ["utf-7", "rot13", "unicode_escape", "latin-1", "nonsense"])
def test_a_file_is_read_as_python_reads_it(cookie):
    """In another encoding a comment may be code."""
    assert refusal("calc.py", f"# coding: {cookie}\nx = 1\n", []).reason == "syntax"


def test_the_harmless_names_exist_and_are_no_modules():
    for module, names in harmless.MODULES.items():
        found = {name: getattr(importlib.import_module(module), name) for name in names}
        assert not [name for name, value in found.items() if isinstance(value, types.ModuleType)]


@pytest.mark.parametrize("name", sorted(bugs.TESTS))
def test_every_bug_of_a_library_can_be_made_and_repaired(name):
    """One bug of each kind and file: neither its repair nor the way back is refused."""
    whole = bugs.library(name)
    found = {(edit.path, edit.kind): bugs.Bug(name, (edit,)) for edit in bugs.library_edits(name)}
    for (path, _), bug in found.items():
        known = [bug.files()[path], whole.files[path]]
        assert [refusal(path, text, known) for text in known] == [None, None]


def test_a_refused_edit_is_an_invalid_action_that_says_why(tmp_path):
    env = make_environment("swegym").env()
    env.reset(task(tmp_path, Instance.from_dict(row())), 0)
    result = env.step("replace shop/calc.py: return a - b => return __import__('os')")
    assert (result.valid, result.info) == (False, {"refused": "dunder"})
    assert result.observation.text == "shop/calc.py line 5: a repair may not add __import__. Nothing was changed."
    assert env.step("submit").info["patch"] == ""
    env.close()


# ---- which files: none that tests import

# path -> (text, whether it belongs to the tests)
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


FILES = {path: text for path, (text, _) in REPOSITORY.items()}


def workspace(files: dict[str, str], **changes: str) -> Workspace:
    tests = {"FAIL_TO_PASS": ["checks/test_all.py::test_add"], "PASS_TO_PASS": []}
    return Workspace(Instance.from_dict(row(files=files, **tests, **changes)), InlineFiles())


def test_what_the_tests_import_is_no_source_file():
    changed = {**FILES, "src/shop/calc.py": FILES["src/shop/calc.py"] + "\nadd = max"}
    with workspace(FILES, patch=diff(FILES, changed)) as place:
        assert {path: not place.is_source(path) for path in FILES} == {
            path: ours for path, (_, ours) in REPOSITORY.items()
        }


def test_tests_that_come_with_the_instance_are_read_too():
    hidden = diff(FILES, {**FILES, "checks/test_all.py": "import other"})
    with workspace({**FILES, "a.py": ""}, patch=diff({"a.py": ""}, {"a.py": "x"}), test_patch=hidden) as place:
        assert not place.is_source("tools/other.py")
        assert place.is_source("src/shop/words.py")
