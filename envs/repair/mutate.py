"""Small bugs for working code: found in its syntax tree, made in its text.

The kinds are those of mutation testing (Jia and Harman, 2011, doi:10.1109/TSE.2010.62), and bugs of
several lines: missing statements, blocks and function bodies, and lines in the wrong order.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], tuple[tuple[str, str, str], ...]] = {
    ast.Lt: (("boundary", "<", "<="), ("comparison", "<", ">")),
    ast.LtE: (("boundary", "<=", "<"), ("comparison", "<=", ">=")),
    ast.Gt: (("boundary", ">", ">="), ("comparison", ">", "<")),
    ast.GtE: (("boundary", ">=", ">"), ("comparison", ">=", "<=")),
    ast.Eq: (("comparison", "==", "!="),),
    ast.NotEq: (("comparison", "!=", "=="),),
    ast.In: (("comparison", "in", "not in"),),
    ast.NotIn: (("comparison", "not in", "in"),),
    ast.Is: (("comparison", "is", "is not"),),
    ast.IsNot: (("comparison", "is not", "is"),),
}
_ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "//"),
    ast.FloorDiv: ("//", "/"),
    ast.Mod: ("%", "//"),
    ast.BitOr: ("|", "&"),
}
_OPPOSITES = (
    *(("min", "max"), ("any", "all"), ("ljust", "rjust"), ("lstrip", "rstrip"), ("startswith", "endswith")),
    *(("lower", "upper"), ("partition", "rpartition"), ("find", "rfind"), ("removeprefix", "removesuffix")),
)
_SIMILAR = {"append": "extend", "popleft": "pop", "sorted": "list", **dict(_OPPOSITES)}
_SIMILAR |= {second: first for first, second in _OPPOSITES}
_SYMMETRIC = frozenset({"min", "max", "isinstance", "zip"})
_SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.Delete, ast.Continue)
_BLOCKS = (ast.If, ast.For, ast.While)
_MAX_LINES = 24
Nodes = frozenset[ast.AST]
Change = tuple[str, int, int, str]  # a kind; characters from the one to the other become the text


@dataclass(frozen=True, order=True)
class Edit:
    """One bug: characters ``start`` to ``stop`` of a file become ``text``; it is in ``scope``."""

    path: str
    start: int
    stop: int
    text: str
    kind: str
    scope: str

    def overlaps(self, other: Edit) -> bool:
        """Return whether two edits exclude each other or touch."""
        return self.path == other.path and self.start <= other.stop and other.start <= self.stop


class Source:
    """A module's text, by lines (from 1, as in the syntax tree) and by characters."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = text.splitlines(keepends=True)
        self._starts = [0, *itertools.accumulate(len(line) for line in self._lines)]

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return a node's first character and the one after its last."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._index(node.lineno, node.col_offset), self._index(node.end_lineno, node.end_col_offset)

    def of(self, node: ast.expr | ast.stmt) -> str:
        start, stop = self.span(node)
        return self.text[start:stop]

    def line_span(self, first: int, last: int) -> tuple[int, int]:
        """Return the characters of whole lines, both included."""
        return self._starts[first - 1], self._starts[last]

    def indent(self, line: int) -> str:
        content = self._lines[line - 1]
        return content[: len(content) - len(content.lstrip())]

    def is_elif(self, line: int) -> bool:
        return self._lines[line - 1].lstrip().startswith("elif")

    def stands_alone(self, node: ast.stmt) -> bool:
        """Return whether a statement shares its lines with nothing, not even a comment."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        before = self._lines[node.lineno - 1].encode()[: node.col_offset]
        after = self._lines[node.end_lineno - 1].encode()[node.end_col_offset :]
        return not before.strip() and not after.strip()

    def replaced(self, kind: str, node: ast.expr, text: str) -> Change:
        return kind, *self.span(node), text

    def between(self, kind: str, left: ast.expr, right: ast.expr, old: str, new: str) -> Change:
        """Return a change of the operator ``old`` between two operands."""
        start = self.text.index(old, self.span(left)[1], self.span(right)[0])
        return kind, start, start + len(old), new

    def swapped(self, kind: str, first: ast.expr, second: ast.expr) -> Change:
        (start, end), (begin, stop) = self.span(first), self.span(second)
        return kind, start, stop, self.of(second) + self.text[end:begin] + self.of(first)

    def _index(self, line: int, column: int) -> int:
        """Return a character's index; the tree counts columns in bytes."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())


def edits(path: str, text: str) -> list[Edit]:
    """Return each bug that can be made in the functions of a module, in the order of its text."""
    source, tree = Source(text), ast.parse(text)
    steps = frozenset(step for node in ast.walk(tree) if isinstance(node, ast.While) for step in _loop_steps(node))
    found = [
        Edit(path, start, stop, new, kind, scope)
        for node, scope in _nodes(tree, steps)
        for kind, start, stop, new in (*_changes(node, source), *_block_changes(node, source, steps))
        if text[start:stop] != new
    ]
    return sorted({(edit.start, edit.stop, edit.text): edit for edit in reversed(found)}.values())


def apply(text: str, chosen: Iterable[Edit]) -> str:
    """Make edits that do not overlap."""
    for edit in sorted(chosen, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.stop :]
    return text


def _loop_steps(loop: ast.While) -> Iterator[ast.AST]:
    """Yield a loop's condition and its counting; without them most loops do not end."""
    yield loop.test
    yield from (node for node in ast.walk(loop) if isinstance(node, ast.AugAssign))


def _nodes(tree: ast.AST, omitted: Nodes, scope: str = "", inside: bool = False) -> Iterator[tuple[ast.AST, str]]:
    """Yield the nodes of all functions with the dotted name of their function.

    Annotations, decorators and f-strings are omitted: the former change nothing that runs, and
    positions inside f-strings differ between versions of Python.
    """
    for child in ast.iter_child_nodes(tree):
        if child in omitted or isinstance(child, ast.JoinedStr | ast.arg) or _never_runs(tree, child):
            continue
        name = f"{scope}.{child.name}".strip(".") if isinstance(child, ast.FunctionDef | ast.ClassDef) else scope
        within = inside or isinstance(child, ast.FunctionDef)
        if within:
            yield child, name
        yield from _nodes(child, omitted, name, within)


def _never_runs(parent: ast.AST, child: ast.AST) -> bool:
    if isinstance(parent, ast.FunctionDef | ast.ClassDef) and child in parent.decorator_list:
        return True
    return child in (getattr(parent, "returns", None), getattr(parent, "annotation", None))


def _changes(node: ast.AST, source: Source) -> Iterator[Change]:
    """Yield the bugs of one expression or simple statement."""
    match node:
        case ast.Compare(ops=[operator], comparators=[right]):
            for kind, old, new in _COMPARISONS[type(operator)]:
                yield source.between(kind, node.left, right, old, new)
        case ast.BinOp(left, operator, right) | ast.AugAssign(left, operator, right) if type(operator) in _ARITHMETIC:
            yield source.between("arithmetic", left, right, *_ARITHMETIC[type(operator)])
        case ast.BoolOp(operator, values):
            words = ("and", "or") if isinstance(operator, ast.And) else ("or", "and")
            for left, right in itertools.pairwise(values):
                yield source.between("boolean", left, right, *words)
        case ast.If(test=test) | ast.IfExp(test=test):
            yield _negation(test, source)
        case ast.UnaryOp(ast.USub(), operand):
            yield source.replaced("sign", node, source.of(operand))
        case ast.Constant():
            yield from _constants(node, source)
        case ast.Call():
            yield from _calls(node, source)
        case ast.Return(ast.Tuple(elts=[first, second, *_])):
            yield source.swapped("wrong return", first, second)
        case ast.Return(ast.expr() as value) if not isinstance(value, ast.Constant | ast.Compare | ast.BoolOp):
            yield source.replaced("wrong return", value, "None")


def _negation(test: ast.expr, source: Source) -> Change:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return source.replaced("negation", test, source.of(test.operand))
    text = source.of(test)
    simple = isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    return source.replaced("negation", test, f"not {text}" if simple else f"not ({text})")


def _constants(node: ast.Constant, source: Source) -> Iterator[Change]:
    if isinstance(node.value, bool):
        yield source.replaced("constant", node, str(not node.value))
    elif isinstance(node.value, int) and source.of(node).isdigit():
        yield source.replaced("constant", node, str(node.value + 1))
        if node.value > 0:
            yield source.replaced("constant", node, str(node.value - 1))


def _calls(node: ast.Call, source: Source) -> Iterator[Change]:
    function = node.func
    name = str(getattr(function, "attr", getattr(function, "id", "")))
    if name in _SIMILAR:
        stop = source.span(function)[1]
        yield "wrong call", stop - len(name), stop, _SIMILAR[name]
    if len(node.args) > 1 and name not in _SYMMETRIC and not any(isinstance(arg, ast.Starred) for arg in node.args):
        yield source.swapped("swapped arguments", node.args[0], node.args[1])


def _block_changes(node: ast.AST, source: Source, omitted: Nodes) -> Iterator[Change]:
    """Yield the bugs of whole lines in the blocks of a statement."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield from _missing(_code(block), source, omitted)
            yield from _exchanged(_code(block), source, omitted)
    if isinstance(node, ast.FunctionDef):
        yield from _missing_body(node, source)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if isinstance(default, ast.Constant) and isinstance(default.value, str) and default.value:
                yield source.replaced("default", default, '""')


def _code(block: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """Return a block without its docstring."""
    first = block[0] if block else None
    return block[1:] if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) else block


def _missing(block: Sequence[ast.stmt], source: Source, omitted: Nodes) -> Iterator[Change]:
    """Yield the removal of each statement or block."""
    for statement in block:
        simple = isinstance(statement, _SIMPLE)
        if statement in omitted or not (simple or isinstance(statement, _BLOCKS)) or not _may_go(statement, source):
            continue
        first, last = statement.lineno, statement.end_lineno or statement.lineno
        alone = len(block) == 1 and not source.is_elif(first)
        filler = f"{source.indent(first)}pass\n" if alone else ""
        yield "missing statement" if simple else "missing block", *source.line_span(first, last), filler


def _may_go(statement: ast.stmt, source: Source) -> bool:
    """Return whether a statement may be removed; a missing definition would be too easy."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if any(isinstance(target, ast.Name | ast.Tuple) for target in targets):
        return False
    lines = (statement.end_lineno or statement.lineno) - statement.lineno + 1
    return lines <= _MAX_LINES and (source.stands_alone(statement) or source.is_elif(statement.lineno))


def _exchanged(block: Sequence[ast.stmt], source: Source, omitted: Nodes) -> Iterator[Change]:
    """Yield pairs of neighbouring lines in the wrong order."""
    for one, two in itertools.pairwise(block):
        if one in omitted or two in omitted or two.lineno != one.lineno + 1:
            continue
        if all(isinstance(each, _SIMPLE) and each.lineno == each.end_lineno for each in (one, two)):
            start, stop = source.line_span(one.lineno, two.lineno)
            middle = source.line_span(two.lineno, two.lineno)[0]
            if source.stands_alone(one) and source.stands_alone(two):
                yield "wrong order", start, stop, source.text[middle:stop] + source.text[start:middle]


def _missing_body(node: ast.FunctionDef, source: Source) -> Iterator[Change]:
    """Yield a function of three lines or more without its body."""
    if code := _code(node.body):
        first, last = code[0].lineno, code[-1].end_lineno or code[-1].lineno
        if 3 <= last - first + 1 <= _MAX_LINES:
            filler = f"{source.indent(first)}raise NotImplementedError\n"
            yield "missing body", *source.line_span(first, last), filler
