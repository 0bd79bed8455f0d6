"""What a task says is wrong: the promises that no longer hold, in the tests' words, and where they were made."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

from envs.repair.grading import TestRun
from envs.repair.libraries import Library
from envs.repair.mutate import Edit

_MOST_PROMISES = 4
_MOST_PLACES = 4
_ADDRESS = re.compile(r"0x[0-9a-f]{4,}")


def statement(library: Library, edits: Sequence[Edit], failing: Sequence[str], run: TestRun) -> str:
    """A bug report: what fails, an example, and the functions to look at with what they promise.

    It names functions, never lines, and shows no code of the library.
    """
    promises = list(dict.fromkeys(_promise(test) for test in failing))
    lines = [
        f"{len(failing)} of {len(run.statuses)} tests of the library {library.name} fail. What should hold and does not:"
    ]
    lines += [f"- {promise}" for promise in promises[:_MOST_PROMISES]]
    if len(promises) > _MOST_PROMISES:
        lines.append(f"- and {len(promises) - _MOST_PROMISES} more")
    lines += _example(failing, run)
    lines += ["Look at:", *_places(library, edits)]
    return "\n".join(lines)


def _promise(test: str) -> str:
    """``test_a.py::test_touching_intervals_merge[1-2]`` promises that touching intervals merge."""
    name = test.rsplit("::", 1)[-1].split("[", 1)[0]
    return name.removeprefix("test_").replace("_", " ")


def _example(failing: Sequence[str], run: TestRun) -> list[str]:
    """The first line of one failure. Not where it tells an address in memory, which differs from run to run."""
    for test in failing:
        words = run.messages.get(test, "").split("\n")[0].removeprefix("E").strip()
        if words and not _ADDRESS.search(words):
            return [f"For instance {test.rsplit('::', 1)[-1]}: {words[:160]}"]
    return []


def _places(library: Library, edits: Iterable[Edit]) -> list[str]:
    """The broken functions, in the order of their names; a private one is only hinted at by its module."""
    places = []
    for edit in edits:
        scope = edit.scope
        private = any(part.startswith("_") and not part.endswith("__") for part in scope.split("."))
        said = _docstring(library.files[edit.path], scope)
        places.append(f"- {edit.path}" if private else f"- {scope} in {edit.path}" + (f": {said}" if said else ""))
    distinct = sorted(set(places))
    return distinct[:_MOST_PLACES] + (["- and others"] if len(distinct) > _MOST_PLACES else [])


def _docstring(source: str, scope: str) -> str:
    """The first paragraph of a function's docstring, on one line."""
    node: ast.AST = ast.parse(source)
    for name in scope.split("."):
        inner = [child for child in ast.walk(node) if getattr(child, "name", None) == name and child is not node]
        if not inner:
            return ""
        node = inner[0]
    said = ast.get_docstring(node) if isinstance(node, ast.FunctionDef | ast.ClassDef) else ""
    return " ".join((said or "").split("\n\n")[0].split())
