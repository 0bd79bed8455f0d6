"""A task's bug report: what the failing tests promise, and the functions to look at."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

from turngrid.envs.repair.bugs import Library
from turngrid.envs.repair.grading import TestRun
from turngrid.envs.repair.mutate import Edit

_MOST_PROMISES = 4
_MOST_PLACES = 4
_ADDRESS = re.compile(r"0x[0-9a-f]{4,}")


def statement(library: Library, edits: Sequence[Edit], failing: Sequence[str], run: TestRun) -> str:
    """Return a bug report: failing promises, an example, and the broken functions' docstrings.

    It names functions, never lines, and shows no code of the library.
    """
    promises = list(dict.fromkeys(_promise(test) for test in failing))
    failed = f"{len(failing)} of {len(run.statuses)} tests of the library {library.name} fail."
    lines = [f"{failed} What should hold and does not:"]
    lines += [f"- {promise}" for promise in promises[:_MOST_PROMISES]]
    if len(promises) > _MOST_PROMISES:
        lines.append(f"- and {len(promises) - _MOST_PROMISES} more")
    lines += _example(failing, run)
    lines += ["Look at:", *_places(library, edits)]
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


def _places(library: Library, edits: Iterable[Edit]) -> list[str]:
    """Return the broken functions, sorted; a private one is named by its module only."""
    places = []
    for edit in edits:
        scope = edit.scope
        private = any(part.startswith("_") and not part.endswith("__") for part in scope.split("."))
        promise = _docstring(library.files[edit.path], scope)
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
