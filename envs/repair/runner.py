"""Runs pytest inside the sandbox and reports, test by test, over a channel that what is tested does not know of.

This file is sent as text on the standard input of a bare interpreter (``BOOT``), so it needs nothing of ours there; it
also runs on the old Pythons and pytests of container images (3.8, pytest 6). What it defends against, and what no
runner in the same process can, is told in docs/sandbox.md:

- the report goes to the standard output that the process was born with; printed text goes elsewhere, and each line
  carries a number and a keyed hash, so a line of anybody else's is noticed;
- the functions of pytest and of the tests are compared with what they were before any code under test ran;
- tests that have to fail are mixed among the real ones: whatever makes them pass is no repair.
"""

from __future__ import annotations

BOOT = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; import json; request = json.loads(sys.stdin.readline());"
    " scope = {'__name__': 'turngrid_runner'}; exec(compile(request['runner'], '<runner>', 'exec'), scope);"
    " scope['main'](request)"
)
_WATCHED = ("_pytest", "pytest", "pluggy", "builtins", "unittest.case", "turngrid_runner")
_INI = ("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg", "pyproject.toml")
_OWN_CHANGES = ("_getini_unknown_type",)  # pytest itself replaces these while it starts
_MESSAGE_CHARS = 600


def main(request):
    """``request``: files (or ids) for pytest, wanted ids (all if empty), key, autoload, canaries."""
    import os
    import sys

    if not request["autoload"]:
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    import pytest

    report = _channel(request.pop("key"))
    root = os.getcwd()
    for folder in (os.path.join(root, "src"), root):
        if os.path.isdir(folder):
            sys.path.insert(0, folder)
    plugin = _plugin(pytest, report, request, root)
    try:
        code = int(pytest.main(_arguments(request, root), plugins=[plugin]))
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    plugin.closing()
    report({"event": "end", "code": code})
    sys.stderr.flush()
    os._exit(0)  # nothing of what was tested runs after the report


def _channel(key):
    """Keep the standard output for reports; what is printed from now on goes to the standard error."""
    import hashlib
    import hmac
    import json
    import os

    private = os.dup(1)
    os.dup2(2, 1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    keyed, number, write, dumps = hmac.new(bytes.fromhex(key), digestmod=hashlib.sha256), [0], os.write, json.dumps
    del key

    def report(record):
        record["n"] = number[0]
        number[0] += 1
        line = dumps(record)
        seal = keyed.copy()
        seal.update(line.encode())
        data = (seal.hexdigest() + " " + line + "\n").encode()
        while data:
            data = data[write(private, data) :]

    return report


def _arguments(request, root):
    import importlib.util
    import os

    found = importlib.util.find_spec
    told = any(os.path.exists(os.path.join(root, name)) for name in _INI)
    arguments = ["--rootdir=" + root, "--confcutdir=" + root, "-p", "no:cacheprovider", "-p", "no:randomly", "-q"]
    arguments += ["--tb=short", "--show-capture=no", "--color=no", "--continue-on-collection-errors"]
    arguments += [] if told else ["-c", os.devnull]
    if request["autoload"]:
        arguments += ["-n0"] if found("xdist") else []
        arguments += ["--no-cov"] if found("pytest_cov") else []
    return arguments + request["files"]


def _plugin(pytest, report, request, root):
    import os
    import random

    wanted = set(request["wanted"])
    files = {test.split("::", 1)[0] for test in wanted}
    draw = random.Random(request["seed"])
    same = _snapshot()

    class Runner:
        def __init__(self):
            self.phases, self.message, self.codes, self.canaries = {}, "", {}, set()
            self.plugins = None

        def pytest_itemcollected(self, item):
            self.codes[item.nodeid] = _code(item)

        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(self, config, items):
            if wanted:
                # a published id may be cut at its first space
                items[:] = [i for i in items if i.nodeid in wanted or i.nodeid.split(" ")[0] in wanted]
            report({"event": "collected", "tests": [[i.nodeid, _xfail(i)] for i in items]})
            for _ in range(min(request["canaries"], len(items))):
                place = draw.randrange(len(items) + 1)
                canary = _canary(pytest, items[min(place, len(items) - 1)])
                self.canaries.add(canary.nodeid)
                self.codes[canary.nodeid] = _code(canary)
                items.insert(place, canary)
            self.plugins = set(map(id, config.pluginmanager.get_plugins()))
            for plugin in config.pluginmanager.get_plugins():
                self.known(plugin)

        def known(self, plugin):
            """A plugin that came with the tests is a conftest or a test module, never code under test."""
            path = getattr(plugin, "__file__", None)
            if not path or not os.path.abspath(path).startswith(root + os.sep):
                return
            name = os.path.basename(path)
            if name != "conftest.py" and os.path.relpath(path, root) not in files and not name.startswith("test_"):
                report({"event": "tampered", "what": "a plugin was registered: " + name})

        def pytest_collectreport(self, report):
            if report.failed:
                send({"event": "uncollected", "file": report.nodeid, "message": _last(str(report.longrepr))})

        def pytest_runtest_logstart(self, nodeid):
            self.phases, self.message = {}, ""
            if nodeid not in self.canaries:
                send({"event": "start", "test": nodeid})

        def pytest_runtest_logreport(self, report):
            if type(report).__name__ != "TestReport":
                return  # a subtest: its test fails with it
            if report.outcome != "rerun":
                xfail = "xfailed" if hasattr(report, "wasxfail") and report.outcome == "skipped" else report.outcome
                self.phases[report.when] = xfail
            if report.failed:
                self.message = _last(str(report.longrepr))

        def pytest_runtest_logfinish(self, nodeid):
            if nodeid in self.canaries:
                self.canaries.discard(nodeid)
                if self.phases.get("call") != "failed":
                    send({"event": "tampered", "what": "a test that has to fail did not"})
            else:
                send({"event": "test", "test": nodeid, "phases": self.phases, "message": self.message})
            self.check()

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_call(self, item):
            if _code(item) is not self.codes.get(item.nodeid):
                send({"event": "tampered", "what": "the test " + item.nodeid + " was changed"})

        def pytest_unconfigure(self, config):
            self.check()

        def check(self):
            changed = same()
            if changed:
                send({"event": "tampered", "what": changed + " was changed"})

        def closing(self):
            if self.canaries:
                send({"event": "unfinished", "what": "tests were left out"})

    send = report
    runner = Runner()
    same = _snapshot(Runner)
    return runner


def _canary(pytest, beside):
    """A test that fails, of the same kind and in the same place as ``beside``."""
    name = "test_" + "".join(__import__("random").SystemRandom().choices("abcdefghijklmnopqrstuvwxyz", k=12))

    def fails():
        assert [name] == []

    parent = beside.getparent(pytest.Module)
    if parent is None:
        parent = beside.session
    return pytest.Function.from_parent(parent, name=name, callobj=fails)


def _code(item):
    function = getattr(item, "obj", None)
    function = getattr(function, "__func__", function)
    return getattr(function, "__code__", None)


def _xfail(item):
    return item.get_closest_marker("xfail") is not None


def _last(text):
    lines = [line for line in text.splitlines() if line.strip()]
    marked = [line for line in lines if line.startswith("E ")] or lines[-3:]
    return "\n".join(line[:200] for line in marked[:6])[:_MESSAGE_CHARS]


def _snapshot(*classes):
    """A function that names what has changed since now among pytest's own functions, or gives ""."""
    import sys
    import types

    function = types.FunctionType
    entries, seen = [], set()

    def keep(owner, where, namespace):
        for name, value in list(namespace.items()):
            inner = getattr(value, "__func__", value) if isinstance(value, (staticmethod, classmethod)) else value
            if isinstance(value, property):
                inner = value.fget
            if name in _OWN_CHANGES:
                continue
            if isinstance(inner, function):
                entries.append((namespace, name, value, inner, inner.__code__, inner.__defaults__, where))
            elif where == "builtins" and name != "_":
                entries.append((namespace, name, value, None, None, None, where))
            elif isinstance(value, type) and id(value) not in seen and value.__module__.split(".")[0] in _WATCHED:
                seen.add(id(value))
                keep(value, where + "." + name, value.__dict__)

    for module_name, module in list(sys.modules.items()):
        if module_name in _WATCHED or module_name.split(".")[0] in ("_pytest", "pluggy"):
            keep(module, module_name, module.__dict__)
    for cls in classes:
        keep(cls, cls.__name__, cls.__dict__)

    def changed(entries=entries):
        for namespace, name, value, inner, code, defaults, where in entries:
            same = namespace.get(name) is value
            if not same or (inner is not None and (inner.__code__ is not code or inner.__defaults__ is not defaults)):
                return where + "." + name
        return ""

    return changed
