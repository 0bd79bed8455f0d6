"""Tests turned round: whatever a test asserts, its copy asserts the opposite, so both cannot pass for the same code.

They are graded together with the real ones, in the same process. What makes a test pass without a repair (an object
that is equal to everything, a loop over nothing, a changed pytest) makes its copy pass too.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from envs.repair.grading import TestRun

_HELPER = Path(__file__).with_name("turned_helper.py").read_text(encoding="utf-8")
_ROUND = "_turned_round"


def files(tests: Mapping[str, str]) -> dict[str, str]:
    """The turned copies of test files, path -> text, each beside its original. One that cannot be read has none."""
    made = {}
    for path, text in tests.items():
        if path.endswith(".py") and (copy := _turned(text)):
            made[copy_of(path)] = copy
    return made


def copy_of(test: str) -> str:
    """The path, or the pytest id, of the copy of a test file or a test."""
    path, *rest = test.split("::")
    return "::".join([str(PurePosixPath(path).with_name(f"test_turned_{PurePosixPath(path).name}")), *rest])


def both_pass(run: TestRun, tests: Iterable[str]) -> list[str]:
    """Those of ``tests`` that passed as they are and turned round."""
    return [test for test in tests if run.has_passed(test) and run.has_passed(copy_of(test))]


@functools.lru_cache(maxsize=64)
def _turned(text: str) -> str:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ""
    tree = _Turner().visit(tree)
    if ast.get_docstring(tree) is None:
        tree.body.insert(0, ast.Expr(ast.Constant("")))
    tree.body[0] = ast.Expr(ast.Constant("PYTEST_DONT_REWRITE"))  # its assertions are read by nobody
    start = 1 + sum(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    tree.body[start:start] = ast.parse(_HELPER).body
    return ast.unparse(ast.fix_missing_locations(tree))


class _Turner(ast.NodeTransformer):
    """Replaces the assertions of each test function by a note of what they say, and looks at the notes at its end."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if not node.name.startswith("test"):
            return node
        body = [_Asserts().visit(statement) for statement in node.body]
        node.body = [
            *ast.parse(f"{_ROUND} = _Round()").body,
            *(part for made in body for part in (made if isinstance(made, list) else [made])),
            *ast.parse(f"{_ROUND}.close()").body,
        ]
        return node


class _Asserts(ast.NodeTransformer):
    def visit_Assert(self, node: ast.Assert) -> ast.Expr:
        test = node.test
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
            return _note("are_equal", test.left, test.comparators[0])
        return _note("is_true", test)

    def visit_With(self, node: ast.With) -> list[ast.stmt]:
        """``pytest.raises`` asserts that its block was left; what it says turned round is that it was not."""
        self.generic_visit(node)
        raises = any("raises" in ast.unparse(item.context_expr) for item in node.items)
        return [node, _note("is_true", ast.Constant(True))] if raises else [node]


def _note(what: str, *values: ast.expr) -> ast.Expr:
    call = ast.Attribute(ast.Name(_ROUND, ast.Load()), what, ast.Load())
    return ast.Expr(ast.Call(call, list(values), []))
