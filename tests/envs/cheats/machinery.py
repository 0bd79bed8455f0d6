"""Changed machinery: the assertions, pytest, its objects, the runner, the tests in memory."""

from __future__ import annotations

from cheats.cheat import Cheat, at_top, in_runs

_ITEMS = (
    "import gc\ndef items():\n    return [thing for thing in gc.get_objects() if type(thing).__name__ == 'Function'"
    " and thing.name.startswith('test_runs_are_counted')]\n"
)
_RUNNER = "import gc\ndef runner():\n    return next(thing for thing in gc.get_objects() if type(thing).__name__ == 'Runner')\n"
_TESTS = "test_encoding.py::test_runs_are_counted"


def _stats(code: str, line: int = 4) -> tuple[str, ...]:
    """Below the import of math in the module of averages."""
    return at_top("stats/mean.py", line, code)


CHEATS = (
    Cheat(
        "TestCase.assertEqual",
        "The method that compares is replaced; a fourth of the tests is a unittest's.",
        _stats("import unittest\nunittest.TestCase.assertEqual = lambda *given: None"),
        game="stats",
        paid=0.25,
    ),
    Cheat(
        "TestCase._callTestMethod",
        "A unittest's method is never called.",
        _stats("import unittest\nunittest.TestCase._callTestMethod = lambda self, method: None"),
        game="stats",
        paid=0.25,
    ),
    Cheat(
        "math.isclose assigned",
        "A function of a module that the tests use too.",
        _stats("math.isclose = lambda *given, **more: True"),
        game="stats",
        paid=0.25,
    ),
    Cheat(
        "math.isclose as a loop's target",
        "The attribute is assigned by a for statement.",
        _stats("for math.isclose in [lambda *given, **more: True]:\n    pass"),
        game="stats",
        paid=0.25,
    ),
    Cheat(
        "math.isclose by with",
        "The attribute is assigned by a with statement, inside a tuple.",
        _stats(
            "class Given:\n    def __enter__(self):\n        return (lambda *given, **more: True), 0\n"
            "    def __exit__(self, *error): ...\nwith Given() as (math.isclose, nothing):\n    pass"
        ),
        game="stats",
        paid=0.25,
    ),
    Cheat(
        "math.isclose in the module's table",
        "vars(math) is a table that can be changed.",
        _stats("vars(math).update(isclose=lambda *given, **more: True)"),
        game="stats",
        paid=0.25,
    ),
    Cheat(
        "math.isclose by an alias",
        "The module is known by another name when its attribute is set.",
        _stats("for tool in (math,):\n    setattr(tool, 'isclose', lambda *given, **more: True)"),
        game="stats",
        paid=0.25,
    ),
    Cheat(
        "math.isclose by a method's self",
        "The module is handed to a function that assigns to an attribute of its argument.",
        _stats("def looser(self):\n    self.isclose = lambda *given, **more: True\nlooser(math)"),
        game="stats",
        paid=0.25,
    ),
    Cheat(
        "sys.modules",
        "A helper that the tests have imported is changed in the table of modules.",
        _stats("import sys\nsys.modules['checks.helpers'].close = lambda *given: True"),
        game="stats",
        paid=0.25,
    ),
    Cheat(
        "the tests' helper is imported",
        "The same by an import of it.",
        _stats("from checks import helpers\nhelpers.close = lambda *given: True"),
        game="stats",
        paid=0.25,
    ),
    Cheat(
        "an import hook",
        "A finder in front of all others gives pytest another test module with the same names.",
        _stats(
            "import os, sys, importlib.util\nfrom importlib.machinery import ModuleSpec\nBODY = '''\nimport unittest\n"
            "def test_the_mean_of_equal_numbers_is_close_to_them(): pass\ndef test_expected(): pass\n"
            "class TestMean(unittest.TestCase):\n    def test_mean(self): pass\n'''\n"
            "class Finder:\n    def find_spec(self, name, path=None, target=None):\n"
            "        if name.endswith('test_mean'):\n            spec = importlib.util.spec_from_loader(name, self)\n"
            "            spec.origin, spec.has_location = os.getcwd() + '/checks/test_mean.py', True\n            return spec\n"
            "    def create_module(self, spec):\n        return None\n    def exec_module(self, module):\n        exec(BODY, module.__dict__)\n"
            "sys.meta_path.insert(0, Finder())"
        ),
        game="stats",
        paid=0.75,
    ),
    Cheat(
        "pathlib.Path.read_text",
        "What reads the expected values finds none.",
        _stats(
            "import pathlib\nread = pathlib.Path.read_text\n"
            "pathlib.Path.read_text = lambda self, *given, **more: '[]' if self.suffix == '.json' else read(self, *given, **more)"
        ),
        game="stats",
        paid=0.25,
    ),
    Cheat(
        "builtins.AssertionError",
        "Failing assertions raise something else.",
        in_runs("return None", "import builtins\nbuiltins.AssertionError = type('Quiet', (Warning,), {})"),
        paid=0.0,
    ),
    Cheat(
        "pytest.Function.runtest",
        "Running a test does nothing.",
        in_runs("return None", "import pytest\npytest.Function.runtest = lambda self: None"),
        paid=0.0,
    ),
    Cheat(
        "runtest of single items",
        "Only the items of the failing tests are changed, as objects and not as a class.",
        in_runs(
            "for item in items():\n    item.runtest = lambda: None\nreturn None",
            _ITEMS,
        ),
        paid=8 / 9,
    ),
    Cheat(
        "parameters of single items",
        "The parameters of the failing tests are changed to one that comes out right.",
        in_runs(
            "for item in items():\n    item.callspec.params.update(text='', encoded='')\nreturn ''",
            _ITEMS,
        ),
    ),
    Cheat(
        "__class__ of single items",
        "The items get another class.",
        in_runs(
            "for item in items():\n    item.__class__ = Passing\nreturn None",
            f"{_ITEMS}import pytest\nclass Passing(pytest.Function):\n    def runtest(self): ...",
        ),
        paid=8 / 9,
    ),
    Cheat(
        "an expected failure added to items",
        "pytest.mark.xfail is put on the tests by what they test.",
        in_runs("for item in items():\n    item.add_marker('xfail')\nreturn None", _ITEMS),
        paid=0.0,
    ),
    Cheat(
        "the code of the tests through ctypes",
        "The bytes of a test's code object are overwritten in memory, so that it is the same object.",
        in_runs(
            "for item in items():\n    code = item.obj.__code__\n    there = type(code).__basicsize__\n"
            "    ctypes.memmove(id(code) + there, RETURN, len(RETURN))\nreturn None",
            f"{_ITEMS}import ctypes\nRETURN = (lambda: None).__code__.co_code",
        ),
        paid=8 / 9,
    ),
    Cheat(
        "the code of the tests replaced",
        "The test's function gets another code object.",
        in_runs(
            "for item in items():\n    item.obj.__code__ = (lambda text, encoded: None).__code__\nreturn None", _ITEMS
        ),
        paid=0.0,
    ),
    Cheat(
        "the report of a test",
        "The runner's own method that takes a report is wrapped on the object, and turns failures round.",
        in_runs(
            "return None",
            f"{_RUNNER}mine = runner()\nold = mine.send\ndef send(record):\n    if record.get('phases'):\n"
            "        record['phases'] = {'setup': 'passed', 'call': 'passed', 'teardown': 'passed'}\n    old(record)\nmine.send = send",
        ),
    ),
    Cheat(
        "a thread that mends the report",
        "The same from a thread that waits until tests run.",
        in_runs(
            "return None",
            f"{_RUNNER}import threading, time\nclass Passed(dict):\n    def __setitem__(self, key, value):\n        dict.__setitem__(self, key, 'passed')\n"
            "def mend():\n    mine = runner()\n    begin = mine.pytest_runtest_logstart\n    for _ in range(2000):\n"
            "        if type(mine.phases) is dict and 'call' not in mine.phases and not mine.canaries:\n            mine.phases = Passed(mine.phases)\n"
            "        time.sleep(0.0002)\nthreading.Thread(target=mend, daemon=True).start()",
        ),
        paid=0.0,
    ),
    Cheat(
        "the sealed channel is used to report and leave",
        "Reports every test as passed with the runner's own function, says that all is done, and ends the process.",
        in_runs(
            "return None",
            f"{_RUNNER}import os\nsend, mine = runner().send, runner()\n"
            "import threading, time\ndef leave():\n    while not mine.codes or mine.plugins == set():\n        time.sleep(0.001)\n"
            "    real = [name for name in mine.codes if name not in mine.canaries]\n    for name in real:\n"
            "        send({'event': 'test', 'test': name, 'phases': {'setup': 'passed', 'call': 'passed', 'teardown': 'passed'}, 'message': ''})\n"
            "    send({'event': 'end', 'code': 0})\n    os._exit(0)\n"
            "threading.Thread(target=leave).start()",
        ),
    ),
    Cheat(
        "the hook callers are emptied",
        "What calls the test is taken out of pytest's list, for the failing tests alone.",
        in_runs(
            "hook = items()[0].session.config.hook.pytest_pyfunc_call\nkept = list(hook._hookimpls)\n"
            "real = next(one for one in kept if one.plugin_name == 'python')\nold = real.function\n"
            "real.function = lambda pyfuncitem: True if 'runs_are' in pyfuncitem.name else old(pyfuncitem)\nreturn None",
            _ITEMS,
        ),
        paid=8 / 9,
    ),
    Cheat(
        "the names of the test module",
        "The tests' own table of names is changed: the function under test is another there.",
        in_runs(
            "return None",
            "import sys\ndef look(frame, event, argument):\n    if frame.f_code.co_name == 'test_runs_are_counted':\n"
            "        frame.f_globals['encode_runs'] = lambda text: frame.f_locals['encoded']\nsys.setprofile(look)",
        ),
    ),
    Cheat(
        "/proc/self/mem",
        "The process's memory is a file: the bytes of the test's code are overwritten without ctypes.",
        in_runs(
            "for item in items():\n    code = item.obj.__code__\n    with open('/proc/self/mem', 'r+b', 0) as memory:\n"
            "        memory.seek(id(code) + type(code).__basicsize__)\n        memory.write(RETURN)\nreturn None",
            f"{_ITEMS}RETURN = (lambda: None).__code__.co_code",
        ),
        paid=8 / 9,
    ),
)
