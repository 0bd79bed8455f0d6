"""The libraries that env=repo_repair breaks: whole, tested, of all sizes, and nothing but that."""

import ast

import pytest

from turngrid.envs.repair import bugs
from turngrid.envs.repair.bugs import SUITES, TESTS, UNSEEN
from turngrid.envs.repair.games import LIMITS
from turngrid.envs.repair.grading import Options, run_files
from turngrid.envs.sandbox.types import Outcome

ALLOWED = {
    *("__future__", "calendar", "collections", "dataclasses", "datetime", "decimal", "fractions", "functools", "heapq"),
    *("itertools", "re", "typing"),
}


@pytest.mark.parametrize("name", sorted(TESTS))
def test_every_suite_is_green_in_the_sandbox_and_has_the_declared_size(name):
    run = run_files(bugs.library(name).files, options=Options(limits=LIMITS))
    assert run.outcome is Outcome.FINISHED
    assert len(run.passed) == len(run.statuses) == TESTS[name]


@pytest.mark.parametrize("name", sorted(TESTS))
def test_a_library_is_small_and_stands_alone(name):
    """Every public function and class says what it does, which statements of problems quote."""
    library = bugs.library(name)
    texts = {path: library.files[path] for path in library.sources}
    assert len(texts) <= 3 and 70 <= sum(text.count("\n") for text in texts.values()) <= 250
    own = {path.removesuffix(".py") for path in texts}
    for path, text in texts.items():
        assert {module.split(".")[0] for module in _imports(text)} <= own | ALLOWED
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                assert ast.get_docstring(node), f"{path}: {node.name}"


def test_every_folder_is_declared_and_both_groups_have_suites_of_every_size():
    assert sorted(folder.name for folder in bugs.ROOT.iterdir() if any(folder.glob("*.py"))) == sorted(TESTS)
    for held_out in (False, True):
        sizes = [TESTS[name] for name in TESTS if (name in UNSEEN) == held_out]
        assert all(any(low <= size <= high for size in sizes) for low, high in SUITES.values())


def test_the_environment_s_version_follows_the_libraries(monkeypatch):
    before = bugs.digest.__wrapped__()
    assert before == bugs.digest.__wrapped__()
    other = bugs.library("caches")
    monkeypatch.setattr(bugs, "library", lambda name: other)
    assert bugs.digest.__wrapped__() != before


def _imports(text: str) -> list[str]:
    nodes = list(ast.walk(ast.parse(text)))
    plain = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return plain + [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
