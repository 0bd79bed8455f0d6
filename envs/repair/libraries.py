"""The libraries that ``env=repo_repair`` breaks: small, whole, tested, and part of the project (``assets/repair/``)."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path

from envs.repair.instance import is_test_path

ROOT = Path(__file__).parents[2] / "assets" / "repair"
# The number of tests of each, so that a task can ask for a size of suite before anything is run.
TESTS = {
    "arith": 71,
    "caches": 16,
    "encoding": 69,
    "globs": 49,
    "inifile": 44,
    "intervals": 38,
    "ledger": 17,
    "matrices": 17,
    "recurring": 46,
    "routes": 32,
    "textgrid": 37,
    "versions": 72,
}
# Never trained on: their bugs are for tests of generalisation. Both groups have suites of all three sizes.
UNSEEN = ("encoding", "inifile", "matrices", "recurring")
# Tests of a library, first and last; the bounds are the study's own (tables 2 and 6).
SUITES = {"easy": (1, 17), "medium": (18, 53), "hard": (54, 1_000_000)}
_MAKERS = ("drawing", "making", "mutate", "mutate_blocks", "mutate_text", "plan", "statement")


class LibraryError(ValueError):
    """A folder that is no library to make tasks of."""


@dataclass(frozen=True)
class Library:
    """``files``: path -> text, all of it; ``sources``: the paths of the modules that may be broken."""

    name: str
    files: dict[str, str]
    sources: tuple[str, ...]

    @property
    def modules(self) -> dict[str, str]:
        return {path: self.files[path] for path in self.sources}


@functools.cache
def library(name: str) -> Library:
    """A library of ours. Raises as ``read`` does."""
    return read(ROOT / name)


def read(folder: Path) -> Library:
    """A library from its folder.

    Raises:
        LibraryError: it has no module, or no tests that could tell what is broken.
    """
    paths = sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)
    files = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    sources = tuple(path for path in files if not is_test_path(path))
    if not sources:
        raise LibraryError(f"library {folder.name} has no module of its own in {folder}")
    if len(sources) == len(files):
        raise LibraryError(f"library {folder.name} has no tests: no test_*.py in {folder}")
    return Library(folder.name, files, sources)


@functools.cache
def digest() -> str:
    """Changes with any file of any library, and with the code that makes tasks of them."""
    texts = {f"{name}/{path}": text for name in TESTS for path, text in library(name).files.items()}
    texts |= {name: Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8") for name in _MAKERS}
    return hashlib.sha256("\0".join(f"{path}\0{texts[path]}" for path in sorted(texts)).encode()).hexdigest()
