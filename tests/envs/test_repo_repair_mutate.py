"""The libraries that env=repo_repair breaks: whole, tested, of all sizes. The bugs in them: each
by hand, small in the text, the same every time."""

import ast
from collections import Counter
from dataclasses import replace

import pytest

from turngrid.envs.repair import bugs as making_bugs
from turngrid.envs.repair.bugs import SUITES, TESTS, UNSEEN, library_edits
from turngrid.envs.repair.games import LIMITS
from turngrid.envs.repair.grading import Options, run_files
from turngrid.envs.repair.mutate import apply, edits
from turngrid.envs.sandbox.types import Outcome


def bugs(body: str, head: str = "def f(a, b):") -> dict[str, list[str]]:
    """What each kind makes of a function's body, without its head."""
    source = f"{head}\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    found: dict[str, list[str]] = {}
    for edit in edits("m.py", source):
        lines = apply(source, [edit]).split("\n")[1:-1]
        found.setdefault(edit.kind, []).append("\n".join(line.removeprefix("    ") for line in lines))
    return found


@pytest.mark.parametrize(
    ("body", "kind", "broken"),
    [
        ("x(a < b)", "boundary", ["x(a <= b)"]),
        ("x(a < b)", "comparison", ["x(a > b)"]),
        ("x(a >= b)", "boundary", ["x(a > b)"]),
        ("x(a == b)", "comparison", ["x(a != b)"]),
        ("x(a not in b)", "comparison", ["x(a in b)"]),
        ("x(a is b)", "comparison", ["x(a is not b)"]),
        ("x(a + b)", "arithmetic", ["x(a - b)"]),
        ("x((a) // (b))", "arithmetic", ["x((a) / (b))"]),
        ("a += 1", "arithmetic", ["a -= 1"]),
        ("x(a and b and c)", "boolean", ["x(a or b and c)", "x(a and b or c)"]),
        ("x(-a)", "sign", ["x(a)"]),
        ("x(7)", "constant", ["x(6)", "x(8)"]),
        ("x(0)", "constant", ["x(1)"]),
        ("x(True)", "constant", ["x(False)"]),
        ("x(a if b else c)", "negation", ["x(a if not b else c)"]),
        ("x(a if not b else c)", "negation", ["x(a if b else c)"]),
        ("x(a if b > c else d)", "negation", ["x(a if not (b > c) else d)"]),
        ("x(a, b)", "swapped arguments", ["x(b, a)"]),
        ("x(a.lstrip())", "wrong call", ["x(a.rstrip())"]),
        ("x(max(a, b))", "wrong call", ["x(min(a, b))"]),
        ("return a, b", "wrong return", ["return b, a"]),
        ("return x(a)", "wrong return", ["return None"]),
        ("x(a)\ny(b)", "missing statement", ["y(b)", "x(a)"]),
        ("x(a)\ny(b)", "wrong order", ["y(b)\nx(a)"]),
        ("if a:\n    x(a)\ny(b)", "missing block", ["y(b)"]),
        ("for i in a:\n    x(i)\n    y(i)\nz(b)", "missing block", ["z(b)"]),
        ("if a:\n    return b\nelif b:\n    return a", "missing block", ["pass", "if a:\n    return b"]),
        ("x(a)\ny(a)\nz(a)", "missing body", ["raise NotImplementedError"]),
    ],
)
def test_each_kind_by_hand(body, kind, broken):
    assert bugs(body)[kind] == broken


def test_defaults_are_changed_too():
    head = "def f(a, b=3, *, word='x', flag=False):"
    source = f"{head}\n    pass\n"
    heads = {apply(source, [edit]).split("\n")[0] for edit in edits("m.py", source)}
    assert heads == {head.replace(*change) for change in (("3", "2"), ("3", "4"), ("'x'", '""'), ("False", "True"))}


def test_what_is_left_alone():
    assert "if a:\n    pass\ny(b)" in bugs("if a:\n    x(a)\ny(b)")["missing statement"]  # no empty block
    assert bugs("while a < b:\n    a += 1").keys() == {"missing block"}  # what ends a loop stays
    assert "arithmetic" in bugs("for c in b:\n    a += 1")
    for body in ("x = f'{a + 1} {b < 2}'", "'''1 + 2'''", "x: int = y", "x = y", "import m"):
        assert bugs(body) == {}
    assert edits("m.py", "N = 1 + 2\nclass A:\n    size: int = 3\n") == []
    [edit] = edits("m.py", "class A:\n    def f(self):\n        return self.n\n")
    assert (edit.scope, edit.kind) == ("A.f", "wrong return")


def test_edits_are_made_together_beside_other_alphabets():
    source = "def f(a):\n    return g('é ü', a < 1, a + 2)\n"
    chosen = [edit for edit in edits("m.py", source) if edit.kind in ("boundary", "arithmetic")]
    assert apply(source, chosen) == "def f(a):\n    return g('é ü', a <= 1, a - 2)\n"
    assert not chosen[0].overlaps(chosen[1]) and chosen[0].overlaps(chosen[0])


@pytest.mark.parametrize("name", sorted(TESTS))
def test_edits_of_a_library_read_and_leave_the_rest_as_it_was(name):
    library = making_bugs.library(name)
    found = library_edits(name)
    assert found == tuple(edit for path in library.sources for edit in edits(path, library.files[path]))
    assert len(found) >= 60
    assert len({(edit.path, edit.start, edit.stop, edit.text) for edit in found}) == len(found)
    for edit in found:
        source = library.files[edit.path]
        broken = apply(source, [edit])
        ast.parse(broken)
        assert broken != source
        assert broken[: edit.start] == source[: edit.start]
        assert broken.endswith(source[edit.stop :])


# ---- libraries


def test_every_suite_is_green_in_the_sandbox_and_has_the_declared_size():
    """All in one run; and the longest alone, within a game's limits."""
    for names, cpu_s in (TESTS, 60.0), (["versions"], LIMITS.cpu_s):
        files = {path: text for name in names for path, text in making_bugs.library(name).files.items()}
        run = run_files(files, options=Options(limits=replace(LIMITS, cpu_s=cpu_s)))
        assert run.outcome is Outcome.FINISHED and len(run.passed) == len(run.statuses)
        sizes = Counter(test.split("::")[0] for test in run.statuses)
        assert sizes == {f"test_{name}.py": TESTS[name] for name in names}


def test_every_folder_is_declared_and_both_groups_have_suites_of_every_size():
    assert sorted(folder.name for folder in making_bugs.ROOT.iterdir() if any(folder.glob("*.py"))) == sorted(TESTS)
    for held_out in (False, True):
        sizes = [TESTS[name] for name in TESTS if (name in UNSEEN) == held_out]
        assert all(any(low <= size <= high for size in sizes) for low, high in SUITES.values())


def test_the_environment_s_version_follows_the_libraries(monkeypatch):
    before = making_bugs.digest.__wrapped__()
    assert before == making_bugs.digest.__wrapped__()
    other = making_bugs.library("caches")
    monkeypatch.setattr(making_bugs, "library", lambda name: other)
    assert making_bugs.digest.__wrapped__() != before
