"""An agent's view of a repository: the files as checked out, and its edits, stored separately.

An agent's text never becomes a file path: it selects entries of a list read from the checkout.
"""

import ast
import functools
import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Self

from turngrid.envs.repair import patches, source_rules
from turngrid.envs.repair.grading import write_files
from turngrid.envs.repair.instance import Instance, is_plain_path
from turngrid.envs.repair.providers import RepoProvider
from turngrid.envs.repair.source_rules import Refusal
from turngrid.envs.sandbox.sandbox import prefix

_TOO_BIG = 1 << 20


class Workspace:
    """One instance's repository; a context that removes its folder at the end.

    ``edits``: the changed files, path -> text.

    Raises:
        ProviderError: the repository is not available.
    """

    def __init__(self, instance: Instance, provider: RepoProvider) -> None:
        self.instance, self.provider = instance, provider
        self.edits: dict[str, str] = {}
        self._folder = tempfile.TemporaryDirectory(prefix=prefix(), ignore_cleanup_errors=True)
        try:
            self.base = self._checkout(Path(self._folder.name))
        except BaseException:
            self.close()
            raise
        self._known = frozenset(_files_below(self.base))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._folder.cleanup()

    @property
    def paths(self) -> list[str]:
        return sorted(self._known.union(self.edits))

    def base_text(self, path: str) -> str:
        """Return a file as checked out.

        Raises:
            KeyError: no such file.
            UnicodeDecodeError: the file is no text.
        """
        if path not in self._known:
            raise KeyError(path)
        return (self.base / path).read_bytes().decode()

    def text(self, path: str) -> str:
        """Return a file as the agent sees it."""
        return self.edits[path] if path in self.edits else self.base_text(path)

    def write(self, path: str, text: str) -> Refusal | None:
        """Change or add a file; if the edit is refused, return the reason.

        Syntax errors are accepted.

        Raises:
            ValueError: the path is no plain file path inside the repository, or the text is too
                long.
        """
        above = {str(folder) for folder in Path(path).parents}
        is_folder = any(known.startswith(f"{path}/") for known in self.paths)
        if not is_plain_path(path) or above.intersection(self.paths) or is_folder:
            raise ValueError(f"{path} cannot be a file of this repository")
        parts = (Path(path), *Path(path).parents)
        links = ((self.base / part).is_symlink() for part in parts)  # may lead out of the repository
        if path not in self._known and any(links):
            raise ValueError(f"{path} leaves the repository")
        if len(text) > _TOO_BIG:
            raise ValueError(f"{path} would be longer than {_TOO_BIG} characters")
        refusal = self.refusal(path, text)
        if refusal and refusal.reason != "syntax":  # a file may be broken between two edits
            return refusal
        self.edits[path] = text
        return None

    def refusal(self, path: str, text: str) -> Refusal | None:
        """Return why a repair may not have ``text`` as the file ``path``; None if it may.

        A provider that is not strict accepts everything: real repairs need all of Python.
        """
        if not self.provider.strict:
            return None
        if not self.is_source(path):
            return Refusal("file", f"{path} is not a source file of the library; a repair changes existing ones only")
        if not path.endswith(".py"):
            return None
        known = [self.base_text(path)] if path in self._known else []
        return source_rules.refusal(path, text, [*known, self.reference.get(path) or ""])

    def is_source(self, path: str) -> bool:
        """Return whether a repair may change this file.

        It may change what the reference repair changes, and existing Python that is neither a test
        nor imported by tests. Of files beside tests it may change those that the instance lists as
        modules (``meta["sources"]``). Without a reference repair, it may change any existing Python
        file that is not protected: the code under test is among what tests import.
        """
        if self.instance.is_protected(path):
            return False
        if path in self.reference or path in self.instance.meta.get("sources", ()):
            return True
        if path not in self._known or not path.endswith(".py"):
            return False
        folders = {PurePosixPath(test).parent for test in self.instance.test_files}
        return not self.reference or not (PurePosixPath(path).parent in folders or path in self._imported_by_tests)

    @functools.cached_property
    def _imported_by_tests(self) -> set[str]:
        """Return files that tests import directly or through files outside the reference repair."""
        hidden = self.hidden_tests()
        known = self._known.union(hidden)
        start = {path for path in known if PurePosixPath(path).name == "conftest.py"}.union(self.instance.test_files)

        def read(path: str) -> str:
            return hidden[path] if path in hidden else self.base_text(path)

        return _reached(start, known, read, self.reference)

    @functools.cached_property
    def reference(self) -> Mapping[str, str | None]:
        """The files that the reference repair changes, with their new texts."""
        try:
            return patches.apply(self.instance.patch, self.base_text)
        except patches.PatchError:
            return {}

    @property
    def counted(self) -> dict[str, str]:
        """The graded edits: changed files that are neither tests nor their configuration."""
        kept = {path: text for path, text in self.edits.items() if not self.instance.is_protected(path)}
        return {path: text for path, text in kept.items() if path not in self._known or self.base_text(path) != text}

    def patch(self) -> str:
        """Return the graded edits as a unified diff."""
        counted = self.counted
        return patches.diff({path: self.base_text(path) for path in counted if path in self._known}, counted)

    @contextmanager
    def layers(self, *, graded: bool) -> Iterator[list[Path]]:
        """Yield folders that, laid over each other, are the repository to test.

        Args:
            graded: with the graded edits and ``test_patch``, instead of all edits.

        Raises:
            PatchError: ``test_patch`` does not fit.
        """
        with tempfile.TemporaryDirectory(prefix=prefix()) as folder:
            top = Path(folder) / "top"
            write_files(top, {**self.counted, **self.hidden_tests()} if graded else self.edits)
            # without sandbox isolation, the agent's test runs may have changed the first checkout
            yield [self._checkout(Path(folder)) if graded and self.instance.files else self.base, top]

    def _checkout(self, folder: Path) -> Path:
        base = folder / "base"
        base.mkdir(mode=0o755)
        self.provider.checkout(self.instance, base)
        return base

    def hidden_tests(self) -> dict[str, str]:
        """Return the files of ``test_patch`` by path; a removed file has the text "".

        Raises:
            PatchError: the patch does not fit or leaves the repository.
        """
        changed = patches.apply(self.instance.test_patch, self.base_text)
        if outside := [path for path in changed if not is_plain_path(path)]:
            raise patches.PatchError(f"test_patch has the path {outside[0]!r}, which leaves the repository")
        return {path: text or "" for path, text in changed.items()}


def _files_below(folder: Path) -> Iterator[str]:
    """Yield the paths of regular files below ``folder``; links are not followed."""
    for above, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in (".git", "__pycache__")]
        for name in names:
            path = Path(above) / name
            if path.is_file() and not path.is_symlink():
                yield path.relative_to(folder).as_posix()


def _reached(
    start: Iterable[str], known: Collection[str], read: Callable[[str], str], stop: Collection[str] = ()
) -> set[str]:
    """Return ``start`` and the files that they import, directly or through others.

    Imports are read from syntax trees; no code runs.

    Args:
        known: paths of the repository's files.
        read: returns the text of a path.
        stop: paths to leave out, with what only they import.
    """
    folders = {str(folder) for path in known for folder in PurePosixPath(path).parents}
    roots = [folder for folder in folders if str(PurePosixPath(folder, "__init__.py")) not in known]
    reached: set[str] = set()
    queue = [*start]
    while queue:
        path = queue.pop()
        if path in known and path not in reached and path not in stop:
            reached.add(path)
            queue += _imported(path, _tree(path, read), roots)
    return reached


def _tree(path: str, read: Callable[[str], str]) -> ast.AST:
    try:
        return source_rules.parsed(read(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _imported(path: str, tree: ast.AST, roots: Collection[str]) -> Iterator[str]:
    """Yield paths that a file may import; any folder that is no package may be on ``sys.path``."""
    above = [str(folder) for folder in PurePosixPath(path).parents]
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from _paths(roots, [alias.name for alias in names])
            case ast.ImportFrom(level=0, module=module, names=names):
                yield from _paths(roots, [f"{module}.{alias.name}" for alias in names])
            case ast.ImportFrom(level=level, module=module, names=names):
                names_in = [f"{module}.{alias.name}" if module else alias.name for alias in names]
                yield from _paths(above[level - 1 : level], ["__init__", *names_in])
            case ast.Constant(value=str(text)) if text.replace(".", "").isidentifier():
                yield from _paths(roots, [text])  # as in pytest_plugins or import_module("a.b")


def _paths(folders: Iterable[str], modules: Sequence[str]) -> Iterator[str]:
    """Yield the files of dotted module names and of the packages that contain them."""
    for folder in folders:
        for parts in (module.split(".") for module in modules):
            for count in range(1, len(parts) + 1):
                stem = PurePosixPath(folder, *parts[:count])
                yield from (f"{stem}.py", f"{stem}/__init__.py")
