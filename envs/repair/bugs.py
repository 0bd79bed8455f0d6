"""The libraries that ``env=repo_repair`` breaks (``assets/repair/``), the bugs of a seed, and their
reports.

A seed stands for one edit of a list in a fixed order, or for several edits drawn together until the
repair is long enough. No test is run here.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from turngrid.envs.environment import Rejected
from turngrid.envs.repair import patches
from turngrid.envs.repair.grading import TestRun
from turngrid.envs.repair.instance import is_test_path, patch_lines
from turngrid.envs.repair.mutate import Edit, apply, edits

ROOT = Path(__file__).parents[2] / "assets" / "repair"
# Number of tests, so that a task can ask for a size of suite before any test is run.
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
UNSEEN = ("encoding", "inifile", "matrices", "recurring")  # never trained on; suites of all three sizes
# First and last number of tests of a suite: the study's bounds (tables 2 and 6).
SUITES = {"easy": (1, 17), "medium": (18, 53), "hard": (54, 1_000_000)}
# First and last number of lines of a repair, added and removed; the study's are longer.
LINES = {"easy": (1, 2), "medium": (3, 8), "hard": (9, 40)}
# Sixteenths of a library's edits that belong to each split: no edit is in two of them.
SHARES = {
    "seen": {"train": 10, "demonstrations": 3, "test": 2, "validation": 1},
    "unseen": {"test": 12, "validation": 4},
}
SAME = {"test_paper": "test", "pretraining": "train"}  # splits that take another split's share
_MAKERS = ("bugs", "games", "mutate")
_DRAWS = 60
_MOST_PROMISES = 4
_MOST_PLACES = 4
_ADDRESS = re.compile(r"0x[0-9a-f]{4,}")


@dataclass(frozen=True)
class Library:
    """``files``: path -> text; ``sources``: the paths of the modules that may be broken."""

    name: str
    files: dict[str, str]
    sources: tuple[str, ...]


@functools.cache
def library(name: str) -> Library:
    """Return one of our libraries."""
    folder = ROOT / name
    paths = sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)
    files = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    return Library(name, files, tuple(path for path in files if not is_test_path(path)))


@functools.cache
def digest() -> str:
    """Return a hash of all libraries and of the code that makes tasks of them."""
    texts = {f"{name}/{path}": text for name in TESTS for path, text in library(name).files.items()}
    texts |= {name: Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8") for name in _MAKERS}
    return hashlib.sha256("\0".join(f"{path}\0{texts[path]}" for path in sorted(texts)).encode()).hexdigest()


@dataclass(frozen=True)
class Bug:
    """Edits of one library that are made together, in the order of their places."""

    library: str
    edits: tuple[Edit, ...]

    def files(self) -> dict[str, str]:
        """Return the library's files with the bug."""
        whole = library(self.library)
        broken = {
            path: apply(whole.files[path], [edit for edit in self.edits if edit.path == path]) for path in whole.sources
        }
        return {**whole.files, **broken}

    def repair(self) -> str:
        """Return the patch that removes the bug."""
        return patches.diff(self.files(), library(self.library).files)

    def lines(self) -> int:
        return patch_lines(self.repair())


def difficulty(bounds: Mapping[str, tuple[int, int]], size: int) -> str:
    """Return the name of the bounds that hold ``size``, or ""."""
    return next((name for name, (low, high) in bounds.items() if low <= size <= high), "")


@functools.cache
def singles(names: tuple[str, ...], shares: str, split: str) -> tuple[Bug, ...]:
    """Return the single edits of a split, in an order that mixes libraries and kinds."""
    bugs = [Bug(name, (edit,)) for name in names for edit in library_edits(name) if _owner(name, edit, shares) == split]
    random.Random(f"{shares}/{split}").shuffle(bugs)
    return tuple(bugs)


@functools.cache
def one_liners(names: tuple[str, ...], shares: str, split: str) -> tuple[Bug, ...]:
    """Return those of ``singles`` whose repair is easy."""
    return tuple(bug for bug in singles(names, shares, split) if difficulty(LINES, bug.lines()) == "easy")


def draw(pool: Sequence[Bug], size: str, rng: random.Random, noticed: Callable[[Bug], bool]) -> Bug:
    """Draw edits of one library, each ``noticed`` alone, whose joint repair has the asked size.

    Raises:
        Rejected: no such edits were found.
    """
    low, high = LINES[size]
    target = rng.randint(low, low + (high - low) // 3)
    name = rng.choice(sorted({bug.library for bug in pool}))
    own = [bug for bug in pool if bug.library == name]
    whole: Bug | None = None
    for _ in range(_DRAWS):
        one = _any_kind(own, rng)
        more = _joined(whole, one) if whole else one
        if more is None or more.lines() > high or not noticed(one):
            continue
        whole = more
        if whole.lines() >= target:
            return whole
    raise Rejected(f"no {size} bug of {name} came together")


@functools.cache
def library_edits(name: str) -> tuple[Edit, ...]:
    """Return the edits of a library's modules."""
    whole = library(name)
    return tuple(edit for path in whole.sources for edit in edits(path, whole.files[path]))


def _any_kind(pool: Sequence[Bug], rng: random.Random) -> Bug:
    """Draw a kind, then a bug of it, since most edits are of constants."""
    kind = rng.choice(sorted({bug.edits[0].kind for bug in pool}))
    return rng.choice([bug for bug in pool if bug.edits[0].kind == kind])


def _joined(whole: Bug, one: Bug) -> Bug | None:
    if any(edit.overlaps(one.edits[0]) for edit in whole.edits):
        return None
    together = Bug(whole.library, tuple(sorted((*whole.edits, *one.edits))))
    return together if all(map(_parses, together.files().values())) else None


def _owner(name: str, edit: Edit, shares: str) -> str:
    """Return the split that an edit belongs to."""
    words = f"{name}/{edit.path}/{edit.start}/{edit.stop}/{edit.text}"
    place = int(hashlib.sha256(words.encode()).hexdigest(), 16) % 16
    return [split for split, share in SHARES[shares].items() for _ in range(share)][place]


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def statement(bug: Bug, failing: Sequence[str], run: TestRun) -> str:
    """Return a bug report: failing promises, an example, and the broken functions' docstrings.

    It names functions, never lines, and shows no code of the library.
    """
    promises = list(dict.fromkeys(_promise(test) for test in failing))
    failed = f"{len(failing)} of {len(run.statuses)} tests of the library {bug.library} fail."
    lines = [f"{failed} What should hold and does not:"]
    lines += [f"- {promise}" for promise in promises[:_MOST_PROMISES]]
    if len(promises) > _MOST_PROMISES:
        lines.append(f"- and {len(promises) - _MOST_PROMISES} more")
    lines += _example(failing, run)
    lines += ["Look at:", *_places(bug)]
    return "\n".join(lines)


def _promise(test: str) -> str:
    """Return a test's name in words: ``test_a.py::test_touching_intervals_merge[1-2]``."""
    name = test.rsplit("::", 1)[-1].split("[", 1)[0]
    return name.removeprefix("test_").replace("_", " ")


def _example(failing: Sequence[str], run: TestRun) -> list[str]:
    """Return the first line of a failure that has no address in memory, which differs by run."""
    for test in failing:
        words = run.messages.get(test, "").split("\n")[0].removeprefix("E").strip()
        if words and not _ADDRESS.search(words):
            return [f"For instance {test.rsplit('::', 1)[-1]}: {words[:160]}"]
    return []


def _places(bug: Bug) -> list[str]:
    """Return the broken functions, sorted; a private one is named by its module only."""
    places = []
    for edit in bug.edits:
        scope = edit.scope
        private = any(part.startswith("_") and not part.endswith("__") for part in scope.split("."))
        promise = _docstring(library(bug.library).files[edit.path], scope)
        public = f"- {scope} in {edit.path}" + (f": {promise}" if promise else "")
        places.append(f"- {edit.path}" if private else public)
    distinct = sorted(set(places))
    return distinct[:_MOST_PLACES] + (["- and others"] if len(distinct) > _MOST_PLACES else [])


def _docstring(source: str, scope: str) -> str:
    """Return the first paragraph of a function's docstring, on one line."""
    node: ast.AST = ast.parse(source)
    for name in scope.split("."):
        inner = [child for child in ast.walk(node) if getattr(child, "name", None) == name and child is not node]
        if not inner:
            return ""
        node = inner[0]
    docstring = ast.get_docstring(node) if isinstance(node, ast.FunctionDef | ast.ClassDef) else ""
    return " ".join((docstring or "").split("\n\n")[0].split())
