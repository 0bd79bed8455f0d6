"""Which files of a repository its tests import, directly or through other files: read as syntax trees, none of it runs."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import PurePosixPath


def reached(
    start: Iterable[str], known: Collection[str], read: Callable[[str], str], stop: Collection[str] = ()
) -> set[str]:
    """Return ``start`` and the files that it imports, and that those import.

    Args:
        start: paths of Python files.
        known: the paths of the repository's files.
        read: gives the text of a path.
        stop: paths that are left out, with what only they import.
    """
    folders = {str(folder) for path in known for folder in PurePosixPath(path).parents}
    roots = [folder for folder in folders if str(PurePosixPath(folder, "__init__.py")) not in known]
    found: set[str] = set()
    left = [*start]
    while left:
        path = left.pop()
        if path in known and path not in found and path not in stop:
            found.add(path)
            left += _imported(path, _tree(path, read), roots)
    return found


def _tree(path: str, read: Callable[[str], str]) -> ast.AST:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(read(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _imported(path: str, tree: ast.AST, roots: Collection[str]) -> Iterator[str]:
    """Paths that the imports of a file may stand for. Each folder that is no package may be on Python's path."""
    above = [str(folder) for folder in PurePosixPath(path).parents]
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from _paths(roots, [alias.name for alias in names])
            case ast.ImportFrom(level=0, module=module, names=names):
                yield from _paths(roots, [f"{module}.{alias.name}" for alias in names])
            case ast.ImportFrom(level=level, module=module, names=names):
                asked = [f"{module}.{alias.name}" if module else alias.name for alias in names]
                yield from _paths(above[level - 1 : level], ["__init__", *asked])
            case ast.Constant(value=str(text)) if text.replace(".", "").isidentifier():
                yield from _paths(roots, [text])  # as in pytest_plugins or import_module("a.b")


def _paths(folders: Iterable[str], modules: Sequence[str]) -> Iterator[str]:
    """Modules of these dotted names, and the packages that they are in."""
    for folder in folders:
        for parts in (module.split(".") for module in modules):
            for count in range(1, len(parts) + 1):
                stem = PurePosixPath(folder, *parts[:count])
                yield from (f"{stem}.py", f"{stem}/__init__.py")
