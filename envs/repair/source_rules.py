"""Rules for the Python of a repair, read as a syntax tree before any of it runs.

Tests and the code under test share one process, so code that names the interpreter's insides could
pay itself. A repair may use what the file used before and what the reference repair uses, and what
``harmless`` lists. Anything more is refused.
"""

import ast
import io
import string
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from turngrid.envs.repair.harmless import BASES, KEYWORDS, METHODS, MODULES, RISKY_BUILTINS, WAYS

_IMPORTS = (ast.Import, ast.ImportFrom)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_WORDS = {
    "import": "a repair may not have `{}`",
    "name": "a repair may not use {}",
    "dunder": "a repair may not add {}",
    "module": "a repair may not use {} like this",
    "assignment": "a repair may not assign to {}",
    "class": "a repair may not add {}",
}


class Refusal(NamedTuple):
    """Reason for which a repair is refused.

    Attributes:
        reason: ``syntax``, ``import``, ``name``, ``dunder``, ``module``, ``assignment`` or
            ``class`` here, ``file`` in ``workspace``; counted in ``rollout/refused/REASON``.
        message: what the agent reads.
    """

    reason: str
    message: str


class Use(NamedTuple):
    """Something that a file may have only if it had it before; ``what``: its source."""

    reason: str
    what: str


def refusal(path: str, text: str, known: Iterable[str]) -> Refusal | None:
    """Return why ``text`` may not become the file ``path``; None if it may.

    Args:
        known: texts of that file before and in the reference repair; what they use is allowed.
    """
    try:
        uses = _uses(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return Refusal("syntax", f"{path} cannot be read: {type(error).__name__}")
    allowed = {use for one in known for use in _known_uses(one)} if uses else set()
    for use, line in uses.items():
        if use not in allowed:
            return Refusal(use.reason, f"{path} line {line}: {_WORDS[use.reason].format(use.what)}")
    return None


def _known_uses(text: str) -> Iterable[Use]:
    try:
        return _uses(text)
    except (SyntaxError, ValueError):
        return ()


def _uses(text: str) -> dict[Use, int]:
    """Return each use in a file that ``harmless`` does not list, with its first line."""
    data = text.encode()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    if encoding not in ("utf-8", "utf-8-sig"):
        raise SyntaxError("another encoding than UTF-8")
    first_lines: dict[Use, int] = {}
    for node, use in _Reader(parsed(data)).uses():
        first_lines.setdefault(use, getattr(node, "lineno", 1))
    return first_lines


def parsed(source: str | bytes) -> ast.Module:
    """Return the tree of a module, without warnings.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: it is not Python.
    """
    with warnings.catch_warnings(action="ignore"):
        return ast.parse(source)


class _Reader:
    """One module's tree, with each node's parent and what each imported name stands for."""

    def __init__(self, tree: ast.Module) -> None:
        self._nodes = list(ast.walk(tree))
        self._parents = {child: node for node in self._nodes for child in ast.iter_child_nodes(node)}
        self._borrowed = {_local(one) for node in self._nodes if isinstance(node, _IMPORTS) for one in node.names}
        self._classes = {node.name for node in self._nodes if isinstance(node, ast.ClassDef)}
        self._imported = dict(pair for node in self._nodes for pair in _bindings(node))

    def uses(self) -> Iterator[tuple[ast.AST, Use]]:
        for node in self._nodes:
            for use in self._of(node):
                yield node, use

    def _of(self, node: ast.AST) -> Iterator[Use]:
        yield from self._dunders(node)
        if isinstance(node, _IMPORTS):
            yield from _imports(node)
        elif isinstance(node, ast.Name):
            yield from self._name(node)
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(node)
        elif isinstance(node, ast.MatchClass):
            yield from (Use("name", name) for name in node.kwd_attrs if name in WAYS)
        elif isinstance(node, ast.keyword) and node.arg in KEYWORDS:
            yield Use("dunder", ast.unparse(node))
        elif isinstance(node, ast.ClassDef):  # a subclass of int or str could equal anything
            bases = {ast.unparse(base) for base in node.bases} - BASES - self._classes
            yield from (Use("class", f"class {node.name}({base})") for base in sorted(bases))

    def _dunders(self, node: ast.AST) -> Iterator[Use]:
        """Yield words that begin with two underscores; a definition counts for its own class."""
        is_method = isinstance(node, ast.FunctionDef) and isinstance(self._parents[node], ast.ClassDef)
        for word in _words(node):
            if word.startswith("__") and not (is_method and word in METHODS):
                yield Use("dunder", f"{self._scope(node)}{word}" if isinstance(node, _SCOPES) else word)

    def _scope(self, node: ast.AST) -> str:
        names = []
        while node in self._parents:
            node = self._parents[node]
            names += [f"{node.name}."] if isinstance(node, _SCOPES) else []
        return "".join(reversed(names))

    def _name(self, node: ast.Name) -> Iterator[Use]:
        if node.id in RISKY_BUILTINS or node.id in WAYS:
            yield Use("name", ast.unparse(self._whole(node)))
        if module := self._imported.get(node.id):
            yield from self._of_module(node, module)

    def _of_module(self, node: ast.Name, module: str) -> Iterator[Use]:
        """Yield a module, unless it begins a ``module.name`` that is listed."""
        above: ast.AST = self._parents[node]
        while isinstance(above, ast.Attribute) and f"{module}.{above.attr}" in MODULES:
            module, above = f"{module}.{above.attr}", self._parents[above]
        if isinstance(above, ast.Attribute) and above.attr in MODULES.get(module, ()):
            return
        listed = module in MODULES
        yield Use("module", ast.unparse(self._whole(node) if listed else self._chain(node)))

    def _attribute(self, node: ast.Attribute) -> Iterator[Use]:
        if node.attr in WAYS or (node.attr == "format" and not _is_plain(node.value)):
            yield Use("name", ast.unparse(self._whole(node)))
        if not isinstance(node.ctx, ast.Load) and _names(node.value) & self._borrowed:
            yield Use("assignment", ast.unparse(node))

    def _chain(self, node: ast.AST) -> ast.AST:
        while isinstance(self._parents[node], ast.Attribute):
            node = self._parents[node]
        return node

    def _whole(self, node: ast.AST) -> ast.AST:
        """Return the node with all attributes and calls after it."""
        above = self._parents[node]
        while isinstance(above, ast.Attribute) or (isinstance(above, ast.Call) and above.func is node):
            node, above = above, self._parents[above]
        return node


def _names(node: ast.expr) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _local(alias: ast.alias) -> str:
    return alias.asname or alias.name.split(".")[0]


def _is_plain(template: ast.expr) -> bool:
    """Return whether a format is a constant whose fields look up nothing in their arguments."""
    if not (isinstance(template, ast.Constant) and isinstance(template.value, str)):
        return False
    try:
        fields = list(string.Formatter().parse(template.value))
    except ValueError:
        return False
    return not any(set(".[") & set(name or "") or "{" in (spec or "") for _, name, spec, _ in fields)


def _bindings(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield names that an import gives to a module, or to a name that is not listed."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield _local(alias), alias.name if alias.asname else _local(alias)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            if not _is_listed(node, alias.name):
                yield _local(alias), f"{_source(node)}.{alias.name}"


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[Use]:
    for alias in node.names:
        renamed = f" as {alias.asname}" if alias.asname else ""
        if isinstance(node, ast.Import) and alias.name not in MODULES:
            yield Use("import", f"import {alias.name}{renamed}")
        elif isinstance(node, ast.ImportFrom) and not _is_listed(node, alias.name):
            yield Use("import", f"from {_source(node)} import {alias.name}{renamed}")


def _source(node: ast.ImportFrom) -> str:
    return "." * node.level + (node.module or "")


def _is_listed(node: ast.ImportFrom, name: str) -> bool:
    return name in MODULES.get(_source(node), ())


def _words(node: ast.AST) -> Iterator[str]:
    """Yield the identifiers in a node itself, whichever field has them."""
    if isinstance(node, ast.Constant) or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
        return
    for _, value in ast.iter_fields(node):
        words = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        yield from (part for word in words if isinstance(word, str) for part in word.split("."))
