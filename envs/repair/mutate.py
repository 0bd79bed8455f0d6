"""Small bugs for working code: found in its syntax tree, made in its text, so that all else stays as it was written.

The kinds are those of mutation testing (Jia and Harman, 2011, doi:10.1109/TSE.2010.62), plus bugs of several lines:
blocks and function bodies that are missing.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from envs.repair.mutate_blocks import block_changes, loop_steps
from envs.repair.mutate_text import Change, Text

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


@dataclass(frozen=True, order=True)
class Edit:
    """One bug: characters ``start`` to ``stop`` of a file become ``text``. ``scope`` is the function it lies in."""

    path: str
    start: int
    stop: int
    text: str
    kind: str
    scope: str

    def overlaps(self, other: Edit) -> bool:
        """True where both cannot be made, or would touch."""
        return self.path == other.path and self.start <= other.stop and other.start <= self.stop


def edits(path: str, source: str) -> list[Edit]:
    """Every bug that we know to make in the functions of a module, in the order of its text, each once.

    Whether tests notice one is not known here.
    """
    text, tree = Text(source), ast.parse(source)
    steps = frozenset(step for node in ast.walk(tree) if isinstance(node, ast.While) for step in loop_steps(node))
    found = [
        Edit(path, change.start, change.stop, change.text, change.kind, scope)
        for node, scope in _nodes(tree, steps)
        for change in (*_changes(node, text), *block_changes(node, text, steps))
        if source[change.start : change.stop] != change.text
    ]
    return sorted({(edit.start, edit.stop, edit.text): edit for edit in reversed(found)}.values())


def apply(source: str, chosen: Iterable[Edit]) -> str:
    """``source`` with these edits made; they must not overlap."""
    for edit in sorted(chosen, reverse=True):
        source = source[: edit.start] + edit.text + source[edit.stop :]
    return source


def _nodes(
    tree: ast.AST, left_out: frozenset[ast.AST], scope: str = "", inside: bool = False
) -> Iterator[tuple[ast.AST, str]]:
    """The nodes of all functions with the dotted name of their function, without the ones that are ``left_out``.

    Annotations, decorators and f-strings are left out: the first two change nothing that runs, and the places inside
    f-strings differ between versions of Python.
    """
    for child in ast.iter_child_nodes(tree):
        if child in left_out or isinstance(child, ast.JoinedStr | ast.arg) or _is_aside(tree, child):
            continue
        named = isinstance(child, ast.FunctionDef | ast.ClassDef)
        name = f"{scope}.{child.name}".strip(".") if named else scope  # type: ignore[attr-defined]
        within = inside or isinstance(child, ast.FunctionDef)
        if within:
            yield child, name
        yield from _nodes(child, left_out, name, within)


def _is_aside(parent: ast.AST, child: ast.AST) -> bool:
    if isinstance(parent, ast.FunctionDef | ast.ClassDef) and child in parent.decorator_list:
        return True
    return child in (getattr(parent, "returns", None), getattr(parent, "annotation", None))


def _changes(node: ast.AST, text: Text) -> Iterator[Change]:
    """The bugs of one expression or simple statement."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for kind, old, new in _COMPARISONS[type(node.ops[0])]:
            yield text.between(kind, node.left, node.comparators[0], old, new)
    elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        yield text.between("arithmetic", node.left, node.right, *_ARITHMETIC[type(node.op)])
    elif isinstance(node, ast.AugAssign) and type(node.op) in _ARITHMETIC:
        yield text.between("arithmetic", node.target, node.value, *_ARITHMETIC[type(node.op)])
    elif isinstance(node, ast.BoolOp):
        words = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in itertools.pairwise(node.values):
            yield text.between("boolean", left, right, *words)
    elif isinstance(node, ast.If | ast.IfExp):
        yield _negation(node.test, text)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield text.replaced("sign", node, text.of(node.operand))
    elif isinstance(node, ast.Constant):
        yield from _constants(node, text)
    elif isinstance(node, ast.Call):
        yield from _calls(node, text)
    elif isinstance(node, ast.Return) and node.value is not None:
        yield from _returns(node.value, text)


def _negation(test: ast.expr, text: Text) -> Change:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return text.replaced("negation", test, text.of(test.operand))
    words = text.of(test)
    simple = isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    return text.replaced("negation", test, f"not {words}" if simple else f"not ({words})")


def _constants(node: ast.Constant, text: Text) -> Iterator[Change]:
    if isinstance(node.value, bool):
        yield text.replaced("constant", node, str(not node.value))
    elif isinstance(node.value, int) and text.of(node).isdigit():
        yield text.replaced("constant", node, str(node.value + 1))
        if node.value > 0:
            yield text.replaced("constant", node, str(node.value - 1))


def _calls(node: ast.Call, text: Text) -> Iterator[Change]:
    named = node.func
    name = named.attr if isinstance(named, ast.Attribute) else named.id if isinstance(named, ast.Name) else ""
    if name in _SIMILAR:
        stop = text.span(named)[1]
        yield Change("wrong call", stop - len(name), stop, _SIMILAR[name])
    if len(node.args) > 1 and name not in _SYMMETRIC and not any(isinstance(arg, ast.Starred) for arg in node.args):
        yield _swapped("swapped arguments", node.args[0], node.args[1], text)


def _returns(value: ast.expr, text: Text) -> Iterator[Change]:
    if isinstance(value, ast.Tuple) and len(value.elts) > 1:
        yield _swapped("wrong return", value.elts[0], value.elts[1], text)
    elif not isinstance(value, ast.Constant | ast.Compare | ast.BoolOp):
        yield text.replaced("wrong return", value, "None")


def _swapped(kind: str, first: ast.expr, second: ast.expr, text: Text) -> Change:
    (start, end), (begin, stop) = text.span(first), text.span(second)
    return Change(kind, start, stop, text.of(second) + text.source[end:begin] + text.of(first))
