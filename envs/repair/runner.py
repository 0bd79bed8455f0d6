"""Run pytest inside the sandbox and report each test over a channel unknown to the code under test.

This file is not imported: its text is sent to a bare interpreter (``grading.BOOT``), so it imports
nothing of turngrid and runs on the old versions in container images (Python 3.8, pytest 6).
docs/sandbox.md says what it defends against, and what no runner in the same process can:

- the report goes to the process's original standard output, printed text to standard error; each
  line has a number and a keyed hash, so a forged line is detected;
- the functions of pytest and of the tests, built-ins and the classes of some standard modules are
  compared with those before any code under test ran;
- tests that must fail are mixed among the real ones: whatever makes them pass is no repair.
"""

import builtins
import hashlib
import hmac
import importlib.util
import json
import os
import random
import sys
import types

import pytest

INI = ("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg", "pyproject.toml")
STANDARD = ("collections", "collections.abc", "fractions")  # their classes can be assigned to
OWN_CHANGES = ("_getini_unknown_type",)  # pytest itself replaces these while it starts
MESSAGE_CHARS = 600


def main(request):
    """``request``: files, wanted ids (empty: all), key, seed, autoload, number of canaries."""
    if not request["autoload"]:
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    send = channel(request.pop("key"))
    root = os.getcwd()
    for folder in (os.path.join(root, "src"), root):
        if os.path.isdir(folder):
            sys.path.insert(0, folder)
    runner = Runner(send, request, root)
    runner.changed = snapshot((Runner,))
    try:
        code = int(pytest.main(arguments(request, root), plugins=[runner]))
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    if runner.canaries:
        send({"event": "unfinished", "what": "tests were left out"})
    send({"event": "end", "code": code})
    sys.stderr.flush()
    os._exit(0)  # nothing of what was tested runs after the report


def channel(key):
    """Keep standard output for reports; printed text goes to standard error."""
    private = os.dup(1)
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    keyed, number, write, dumps = hmac.new(bytes.fromhex(key), digestmod=hashlib.sha256), [0], os.write, json.dumps
    del key

    def send(record):
        record["n"] = number[0]
        number[0] += 1
        line = dumps(record)
        seal = keyed.copy()
        seal.update(line.encode())
        data = (seal.hexdigest() + " " + line + "\n").encode()
        while data:
            data = data[write(private, data) :]

    return send


def arguments(request, root):
    find_spec = importlib.util.find_spec
    configured = any(os.path.exists(os.path.join(root, name)) for name in INI)
    given = ["--rootdir=" + root, "--confcutdir=" + root, "-p", "no:cacheprovider", "-p", "no:randomly", "-q"]
    given += ["--tb=short", "--show-capture=no", "--color=no", "--continue-on-collection-errors"]
    given += [] if configured else ["-c", os.devnull]
    if request["autoload"]:
        given += ["-n0"] if find_spec("xdist") else []
        given += ["--no-cov"] if find_spec("pytest_cov") else []
    return given + request["files"]


class Runner:
    """The plugin; ``changed`` returns what was changed since the start, or ""."""

    def __init__(self, send, request, root):
        self.send, self.root, self.wanted = send, root, set(request["wanted"])
        self.draw, self.count = random.Random(request["seed"]), request["canaries"]
        self.codes, self.canaries, self.plugins = {}, set(), set()
        self.phases, self.message, self.subtests = {}, "", False

    def tampered(self, what):
        self.send({"event": "tampered", "what": what})

    def pytest_itemcollected(self, item):
        self.codes[item.nodeid] = code_of(item)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        if self.wanted:  # a published id may be cut at its first space
            items[:] = [i for i in items if i.nodeid in self.wanted or i.nodeid.split(" ")[0] in self.wanted]
        self.send({"event": "collected", "tests": [[item.nodeid, is_xfail(item)] for item in items]})
        if items:
            self.mix_in(items)
        for plugin in config.pluginmanager.get_plugins():
            self.plugins.add(id(plugin))
            if self.is_tested(plugin):
                self.tampered("a plugin was registered by what is tested")

    def mix_in(self, items):
        """Insert canaries between groups, so that no fixture of a class or module is made twice."""
        size = len(items)
        edges = [n for n in range(size + 1) if n in (0, size) or items[n - 1].parent is not items[n].parent]
        for index in sorted(self.draw.choices(edges, k=self.count), reverse=True):
            canary = canary_beside(items[min(index, size - 1)])
            self.canaries.add(canary.nodeid)
            self.codes[canary.nodeid] = code_of(canary)
            items.insert(index, canary)

    def is_tested(self, plugin):
        """Return whether a plugin is code of the repository, but no conftest and no test."""
        module = plugin if isinstance(plugin, types.ModuleType) else sys.modules.get(type(plugin).__module__)
        path = os.path.abspath(getattr(module, "__file__", None) or "/")
        name = os.path.basename(path)
        is_test = name == "conftest.py" or name.startswith("test_") or name.endswith("_test.py")
        return path.startswith(self.root + os.sep) and not is_test

    def pytest_collectreport(self, report):
        if report.failed:
            self.send({"event": "uncollected", "file": report.nodeid, "message": last_words(report)})

    def pytest_runtest_logstart(self, nodeid):
        self.phases, self.message, self.subtests = {}, "", False
        if nodeid not in self.canaries:
            self.send({"event": "start", "test": nodeid})

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item):
        if code_of(item) is not self.codes.get(item.nodeid):
            self.tampered("the test " + item.nodeid + " was changed")

    def pytest_runtest_logreport(self, report):
        if type(report).__name__ != "TestReport":
            self.subtests = self.subtests or report.failed
        elif report.outcome != "rerun":
            expected = hasattr(report, "wasxfail") and report.outcome == "skipped"
            self.phases[report.when] = "xfailed" if expected else report.outcome
        if report.failed:
            self.message = last_words(report)

    def pytest_runtest_logfinish(self, nodeid):
        if self.subtests:
            self.phases["call"] = "failed"
        if nodeid not in self.canaries:
            self.send({"event": "test", "test": nodeid, "phases": self.phases, "message": self.message})
        elif self.phases.get("call") != "failed":
            self.tampered("a test that has to fail did not")
        self.canaries.discard(nodeid)
        self.check()

    def pytest_sessionfinish(self, session):
        if {id(plugin) for plugin in session.config.pluginmanager.get_plugins()} - self.plugins and self.codes:
            self.tampered("a plugin was registered while tests ran")

    def pytest_unconfigure(self, config):
        self.check()

    def check(self):
        changed = self.changed()
        if changed:
            self.tampered(changed + " was changed")


def canary_beside(item):
    """Return a test that fails, of the same kind and in the same place as ``item``."""
    name = "test_" + "".join(random.SystemRandom().choices("abcdefghijklmnopqrstuvwxyz", k=12))

    def fails():
        assert [name] == []

    return pytest.Function.from_parent(item.getparent(pytest.Module) or item.session, name=name, callobj=fails)


def code_of(item):
    function = getattr(item, "obj", None)
    return getattr(getattr(function, "__func__", function), "__code__", None)


def is_xfail(item):
    return item.get_closest_marker("xfail") is not None


def last_words(report):
    lines = [line for line in str(report.longrepr).splitlines() if line.strip()]
    marked = [line for line in lines if line.startswith("E ")] or lines[-3:]
    return "\n".join(line[:200] for line in marked[:6])[:MESSAGE_CHARS]


def snapshot(classes):
    """Return a function that names what of pytest or of Python was changed since now, or ""."""
    entries, seen = [], set()
    for name, module in list(sys.modules.items()):
        if name in ("pytest", "unittest.case") or name.split(".")[0] in ("_pytest", "pluggy"):
            remember(entries, seen, name, module.__dict__)
    for cls in classes:
        remember(entries, seen, cls.__name__, cls.__dict__)
    for name, value in builtins.__dict__.items():
        if name != "_":
            entries.append((builtins.__dict__, name, value, None, None, None, "builtins"))
    for cls in [cls for module in STANDARD for cls in vars(importlib.import_module(module)).values()]:
        for name in dir(cls) if isinstance(cls, type) else ():  # inherited ones too, which an own one would hide
            entries.append((vars(cls), name, vars(cls).get(name), None, None, None, cls.__name__))

    def changed(entries=entries):
        for namespace, name, value, function, code, defaults, where in entries:
            same = namespace.get(name) is value
            if function is not None:
                same = same and function.__code__ is code and function.__defaults__ is defaults
            if not same:
                return where + "." + name
        return ""

    return changed


def remember(entries, seen, where, namespace):
    """Record the functions of a module or class, and of the classes in it."""
    for name, value in list(namespace.items()):
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if name in OWN_CHANGES:
            continue
        if isinstance(function, types.FunctionType):
            entries.append((namespace, name, value, function, function.__code__, function.__defaults__, where))
        elif (
            isinstance(value, type)
            and id(value) not in seen
            and value.__module__.split(".")[0] in ("_pytest", "pluggy")
        ):
            seen.add(id(value))
            remember(entries, seen, where + "." + name, value.__dict__)
