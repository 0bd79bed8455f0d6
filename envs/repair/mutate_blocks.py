"""Bugs of whole lines: statements, blocks and function bodies that are missing, and lines in the wrong order."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence

from envs.repair.mutate_text import Change, Text

_SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.Delete, ast.Continue)
_BLOCKS = (ast.If, ast.For, ast.While)
_MOST_LINES = 24


def loop_steps(loop: ast.While) -> Iterator[ast.AST]:
    """What brings a ``while`` loop to its end: its condition and its counting. Without them most run for ever."""
    yield loop.test
    yield from (node for node in ast.walk(loop) if isinstance(node, ast.AugAssign))


def block_changes(node: ast.AST, text: Text, left_out: frozenset[ast.AST]) -> Iterator[Change]:
    """What may be missing from the blocks of a statement, apart from what is ``left_out``."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield from _missing(_code(block), text, left_out)
            yield from _exchanged(_code(block), text, left_out)
    if isinstance(node, ast.FunctionDef):
        yield from _missing_body(node, text)
        yield from _defaults(node, text)


def _code(block: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """A block without its docstring."""
    first = block[0] if block else None
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return block[1:] if documented else block


def _missing(block: Sequence[ast.stmt], text: Text, left_out: frozenset[ast.AST]) -> Iterator[Change]:
    """One statement or block less."""
    for statement in block:
        simple = isinstance(statement, _SIMPLE)
        known = simple or isinstance(statement, _BLOCKS)
        if not known or statement in left_out or not _may_go(statement, text):
            continue
        first, last = statement.lineno, statement.end_lineno or statement.lineno
        alone = len(block) == 1 and not text.starts_with(first, "elif")
        filler = f"{text.indent(first)}pass\n" if alone else ""
        yield Change("missing statement" if simple else "missing block", *text.line_span(first, last), filler)


def _may_go(statement: ast.stmt, text: Text) -> bool:
    """Definitions of names would only give a NameError, which is no puzzle; what is set in an object may go."""
    if isinstance(statement, ast.Assign) and any(
        isinstance(target, ast.Name | ast.Tuple) for target in statement.targets
    ):
        return False
    lines = (statement.end_lineno or statement.lineno) - statement.lineno + 1
    whole = text.stands_alone(statement) or text.starts_with(statement.lineno, "elif")
    return whole and lines <= _MOST_LINES


def _exchanged(block: Sequence[ast.stmt], text: Text, left_out: frozenset[ast.AST]) -> Iterator[Change]:
    """Two neighbouring lines in the wrong order."""
    for one, two in itertools.pairwise(block):
        if one in left_out or two in left_out:
            continue
        single = all(isinstance(each, _SIMPLE) and each.lineno == each.end_lineno for each in (one, two))
        if single and two.lineno == one.lineno + 1 and text.stands_alone(one) and text.stands_alone(two):
            start, stop = text.line_span(one.lineno, two.lineno)
            middle = text.line_span(two.lineno, two.lineno)[0]
            yield Change("wrong order", start, stop, text.source[middle:stop] + text.source[start:middle])


def _missing_body(node: ast.FunctionDef, text: Text) -> Iterator[Change]:
    """A function of three lines or more that was never written."""
    code = _code(node.body)
    if not code:
        return
    first, last = code[0].lineno, code[-1].end_lineno or code[-1].lineno
    if 3 <= last - first + 1 <= _MOST_LINES:
        filler = f"{text.indent(first)}raise NotImplementedError\n"
        yield Change("missing body", *text.line_span(first, last), filler)


def _defaults(node: ast.FunctionDef, text: Text) -> Iterator[Change]:
    """Another default value of a parameter; whole numbers and flags are changed as constants elsewhere."""
    for default in (*node.args.defaults, *(value for value in node.args.kw_defaults if value is not None)):
        if isinstance(default, ast.Constant) and isinstance(default.value, str) and default.value:
            yield text.replaced("default", default, '""')
