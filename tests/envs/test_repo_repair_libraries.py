"""The libraries that env=repo_repair breaks: whole, tested, of all sizes, and nothing but that."""

import ast

import pytest

from turngrid.envs.repair import bugs
from turngrid.envs.repair.bugs import SUITES, TESTS, UNSEEN
from turngrid.envs.repair.games import LIMITS
from turngrid.envs.repair.grading import Options, run_files
from turngrid.envs.sandbox.types import Outcome


@pytest.mark.parametrize("name", sorted(TESTS))
def test_every_suite_is_green_in_the_sandbox_and_has_the_declared_size(name):
    run = run_files(bugs.library(name).files, options=Options(limits=LIMITS))
    assert run.outcome is Outcome.FINISHED
    assert len(run.passed) == len(run.statuses) == TESTS[name]


def test_every_folder_is_declared():
    assert sorted(folder.name for folder in bugs.ROOT.iterdir() if any(folder.glob("*.py"))) == sorted(TESTS)
    assert set(UNSEEN) < set(TESTS)


@pytest.mark.parametrize("held_out", [False, True])
def test_both_groups_have_suites_of_every_size(held_out):
    sizes = [TESTS[name] for name in TESTS if (name in UNSEEN) == held_out]
    for low, high in SUITES.values():
        assert any(low <= size <= high for size in sizes)


@pytest.mark.parametrize("name", sorted(TESTS))
def test_a_library_is_small_and_stands_alone(name):
    library = bugs.library(name)
    assert 1 <= len(library.sources) <= 3
    assert 70 <= sum(text.count("\n") for text in modules(library).values()) <= 250
    own = {path.removesuffix(".py") for path in library.sources}
    allowed = own | {"__future__", "calendar", "collections", "dataclasses", "datetime", "decimal", "fractions"}
    allowed |= {"functools", "heapq", "itertools", "re", "typing"}
    for text in modules(library).values():
        assert {name.split(".")[0] for name in _imports(text)} <= allowed


@pytest.mark.parametrize("name", sorted(TESTS))
def test_every_public_function_and_class_says_what_it_does(name):
    for path, text in modules(bugs.library(name)).items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                assert ast.get_docstring(node), f"{name}/{path}: {node.name}"


def test_the_environment_s_version_follows_the_libraries(monkeypatch):
    before = bugs.digest.__wrapped__()
    assert before == bugs.digest.__wrapped__()
    other = bugs.library("caches")
    monkeypatch.setattr(bugs, "library", lambda name: other)
    assert bugs.digest.__wrapped__() != before


def modules(library):
    return {path: library.files[path] for path in library.sources}


def _imports(text: str) -> list[str]:
    nodes = list(ast.walk(ast.parse(text)))
    plain = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return plain + [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
