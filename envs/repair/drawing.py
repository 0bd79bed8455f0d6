"""Which bugs a seed stands for: single edits in a fixed order, or several drawn together until the repair is long enough.

Nothing is run here; whether a bug is noticed by the tests is asked of the caller.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from envs.environment import Rejected
from envs.repair import libraries, patches
from envs.repair.instance import patch_lines
from envs.repair.libraries import Library
from envs.repair.mutate import Edit, apply, edits

# Added plus removed lines of the repair, first and last. The study's own bounds are up to 8, 9 to 31, and more.
LINES = {"easy": (1, 2), "medium": (3, 8), "hard": (9, 40)}
# Sixteenths of a library's edits that belong to each split: no edit is in two of them.
SHARES = {
    "seen": {"train": 10, "demonstrations": 3, "test": 2, "validation": 1},
    "unseen": {"test": 12, "validation": 4},
}
# These look into another split's share.
SAME = {"test_paper": "test", "pretraining": "train"}
_DRAWS = 60


@dataclass(frozen=True)
class Bug:
    """Edits of one library that are made together, in the order of their places."""

    library: str
    edits: tuple[Edit, ...]

    def files(self) -> dict[str, str]:
        """The library with the bug in it."""
        whole = libraries.library(self.library)
        broken = {
            path: apply(whole.files[path], [edit for edit in self.edits if edit.path == path]) for path in whole.sources
        }
        return {**whole.files, **broken}

    def repair(self) -> str:
        """The patch that takes it out again."""
        return patches.diff(self.files(), libraries.library(self.library).files)

    def lines(self) -> int:
        return patch_lines(self.repair())


def difficulty(bounds: dict[str, tuple[int, int]], size: int) -> str:
    """``easy``, ``medium`` or ``hard`` by the bounds that hold ``size``; "" outside of all of them."""
    return next((name for name, (low, high) in bounds.items() if low <= size <= high), "")


@functools.cache
def singles(names: tuple[str, ...], shares: str, split: str) -> tuple[Bug, ...]:
    """The single edits of these libraries that belong to a split, in an order that mixes libraries and kinds."""
    bugs = [Bug(name, (edit,)) for name in names for edit in library_edits(name) if _owner(name, edit, shares) == split]
    random.Random(f"{shares}/{split}").shuffle(bugs)
    return tuple(bugs)


@functools.cache
def one_liners(names: tuple[str, ...], shares: str, split: str) -> tuple[Bug, ...]:
    """Those of ``singles`` whose repair is easy."""
    return tuple(bug for bug in singles(names, shares, split) if difficulty(LINES, bug.lines()) == "easy")


def draw(pool: Sequence[Bug], size: str, rng: random.Random, noticed: Callable[[Bug], bool]) -> Bug:
    """Edits of one library that are each ``noticed`` alone, and whose repair together has the asked ``size``.

    Raises:
        Rejected: none came together.
    """
    low, high = LINES[size]
    target = rng.randint(low, low + (high - low) // 3)
    name = rng.choice(sorted({bug.library for bug in pool}))
    mine = [bug for bug in pool if bug.library == name]
    whole: Bug | None = None
    for _ in range(_DRAWS):
        one = _any_kind(mine, rng)
        more = _joined(whole, one) if whole else one
        if more is None or more.lines() > high or not noticed(one):
            continue
        whole = more
        if whole.lines() >= target:
            return whole
    raise Rejected(f"no {size} bug of {name} came together")


@functools.cache
def library_edits(name: str) -> tuple[Edit, ...]:
    """The edits of a library's modules."""
    library: Library = libraries.library(name)
    found = itertools.chain.from_iterable(edits(path, library.files[path]) for path in library.sources)
    return tuple(found)


def _any_kind(pool: Sequence[Bug], rng: random.Random) -> Bug:
    """First a kind, then a bug of it: there are many more constants than anything else."""
    kind = rng.choice(sorted({bug.edits[0].kind for bug in pool}))
    return rng.choice([bug for bug in pool if bug.edits[0].kind == kind])


def _joined(whole: Bug, one: Bug) -> Bug | None:
    if any(edit.overlaps(one.edits[0]) for edit in whole.edits):
        return None
    together = Bug(whole.library, tuple(sorted((*whole.edits, *one.edits))))
    return together if all(map(_reads, together.files().values())) else None


def _owner(name: str, edit: Edit, shares: str) -> str:
    """The split that an edit belongs to."""
    words = f"{name}/{edit.path}/{edit.start}/{edit.stop}/{edit.text}"
    place = int(hashlib.sha256(words.encode()).hexdigest(), 16) % 16
    for split, share in SHARES[shares].items():
        if place < share:
            return split
        place -= share
    raise AssertionError("the shares add up to sixteen")


def _reads(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True
