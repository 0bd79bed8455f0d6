"""An agent's view of a repository: the files as checked out, and its edits beside them, never in them.

Nothing that an agent says reaches a file path: it names entries of a list that was read from the checked-out tree.
"""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Self

from envs.repair import imports, patches
from envs.repair.grading import write_files
from envs.repair.instance import Instance, is_plain_path
from envs.repair.providers import RepoProvider
from envs.sandbox.scratch import prefix

_TOO_BIG = 1 << 20


class Refused(ValueError):
    """A repair may not change this file; the message is the agent's answer."""


class Workspace:
    """One instance's repository. ``edits`` are the files that were changed, path -> text.

    It is a context; the folder is gone afterwards.

    Raises:
        ProviderError: the repository cannot be had.
    """

    def __init__(self, instance: Instance, provider: RepoProvider) -> None:
        self.instance, self.provider = instance, provider
        self.edits: dict[str, str] = {}
        self._folder: Path | None = None
        self._texts = provider.texts(instance)
        self._known = frozenset(self._texts or _files_below(self.base))

    @property
    def base(self) -> Path:
        """The folder with the repository as checked out, made when first needed and kept until ``close``."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix=prefix()))
            try:
                (self._folder / "base").mkdir(mode=0o755)
                self.provider.checkout(self.instance, self._folder / "base")
            except BaseException:
                self.close()
                raise
        return self._folder / "base"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the folder; the next use would make another one."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    @property
    def paths(self) -> list[str]:
        """Every file of the repository and every new one, sorted."""
        return sorted(self._known.union(self.edits))

    def base_text(self, path: str) -> str:
        """A file as checked out.

        Raises:
            KeyError: no such file.
            UnicodeDecodeError: it is no text.
        """
        if path not in self._known:
            raise KeyError(path)
        return self._texts[path] if self._texts else (self.base / path).read_bytes().decode()

    def text(self, path: str) -> str:
        """A file as the agent sees it. Raises as ``base_text`` does."""
        return self.edits[path] if path in self.edits else self.base_text(path)

    def write(self, path: str, text: str) -> None:
        """Change a file or make a new one.

        Raises:
            ValueError: the path leaves the repository, goes through a file, or the text is too long.
            Refused: a repair may not change this file.
        """
        above = {str(folder) for folder in Path(path).parents}
        is_folder = any(known.startswith(f"{path}/") for known in self.paths)
        if not is_plain_path(path) or above.intersection(self.paths) or is_folder:
            raise ValueError(f"{path} cannot be a file of this repository")
        parts = (Path(path), *Path(path).parents)
        links = ((self.base / part).is_symlink() for part in parts)  # which may lead anywhere
        if path not in self._known and not self._texts and any(links):
            raise ValueError(f"{path} leaves the repository")
        if len(text) > _TOO_BIG:
            raise ValueError(f"{path} would be longer than {_TOO_BIG} characters")
        if self.provider.strict and not self.is_source(path):
            raise Refused(f"{path} is not a source file of the library; a repair changes existing ones only")
        self.edits[path] = text

    def is_source(self, path: str) -> bool:
        """Return whether a repair may change this file.

        It may change what the reference repair changes, and existing Python that is neither a test
        nor imported by tests. Of files beside tests it may change those that the instance lists as
        modules (``meta["sources"]``). Without a reference repair, imports of tests are not examined:
        they cannot be distinguished from the code under test.
        """
        if self.instance.is_protected(path):
            return False
        if path in self.reference or path in self.instance.meta.get("sources", ()):
            return True
        if path not in self._known or not path.endswith(".py"):
            return False
        return not self.reference or not (self.instance.is_beside_tests(path) or path in self._imported_by_tests)

    @functools.cached_property
    def _imported_by_tests(self) -> set[str]:
        """Files that run for the tests; what only the files of the reference repair import is not among them."""
        hidden = self.hidden_tests()
        known = self._known.union(hidden)
        start = {path for path in known if PurePosixPath(path).name == "conftest.py"}.union(self.instance.test_files)

        def read(path: str) -> str:
            return hidden[path] if path in hidden else self.base_text(path)

        return imports.reached(start, known, read, self.reference)

    @functools.cached_property
    def reference(self) -> Mapping[str, str | None]:
        """The files that the reference repair changes, and what they become."""
        try:
            return patches.apply(self.instance.patch, self.base_text)
        except patches.PatchError:
            return {}

    @property
    def counted(self) -> dict[str, str]:
        """The edits that grading looks at: no tests, nothing that steers how they run, nothing unchanged."""
        kept = {path: text for path, text in self.edits.items() if not self.instance.is_protected(path)}
        return {path: text for path, text in kept.items() if path not in self._known or self.base_text(path) != text}

    def patch(self) -> str:
        """The edits that count, as a unified diff."""
        counted = self.counted
        return patches.diff({path: self.base_text(path) for path in counted if path in self._known}, counted)

    @contextmanager
    def layers(self, *, graded: bool) -> Iterator[list[Path]]:
        """Folders which, laid over each other, are the repository to test: with all edits, or as it is graded, that is
        with the edits that count and with ``test_patch``.

        Raises:
            PatchError: ``test_patch`` does not fit.
        """
        with tempfile.TemporaryDirectory(prefix=prefix()) as folder:
            top = Path(folder) / "top"
            write_files(top, {**self.counted, **self.hidden_tests()} if graded else self.edits)
            if self._texts:  # quickly written, so that nothing lies about between two runs of tests
                write_files(Path(folder) / "base", self._texts)
            yield [Path(folder) / "base" if self._texts else self.base, top]

    def hidden_tests(self) -> dict[str, str]:
        """What ``test_patch`` makes of the test files; a removed one is left empty. Raises as ``layers`` does."""
        changed = patches.apply(self.instance.test_patch, self.base_text)
        if outside := [path for path in changed if not is_plain_path(path)]:
            raise patches.PatchError(f"test_patch has the path {outside[0]!r}, which leaves the repository")
        return {path: text or "" for path, text in changed.items()}


def _files_below(folder: Path) -> Iterator[str]:
    """Regular files, by their path below ``folder``; links are not followed."""
    for above, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in (".git", "__pycache__")]
        for name in names:
            path = Path(above) / name
            if path.is_file() and not path.is_symlink():
                yield path.relative_to(folder).as_posix()
