"""Read the alfworld package's files: domain, grammar, floor plans, goals, affordances.

The package itself is not imported: it would create a folder in the user's home and set
``ALFWORLD_DATA``, by which the user names official data.
"""

import functools
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any


@functools.cache
def root() -> Path:
    """Return the package's folder."""
    spec = importlib.util.find_spec("alfworld")
    assert spec is not None and spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)))


@functools.cache
def domain() -> str:
    return (root() / "data" / "alfred.pddl").read_text()


@functools.cache
def grammar() -> str:
    """Return the grammar of all texts, with ``UNKNOWN GOAL`` for the task."""
    return (root() / "data" / "alfred.twl2").read_text()


@functools.cache
def constants() -> ModuleType:
    """Return the constants of the simulator: types, affordances, floor plans."""
    return _module("gen/constants.py")


@functools.cache
def goals() -> dict[str, dict[str, Any]]:
    """Return each task type's goal in PDDL (``pddl``) and in words (``templates``)."""
    return _module("gen/goal_library.py").gdict


def _module(path: str) -> ModuleType:
    """Load one file as a module, without its package."""
    spec = importlib.util.spec_from_file_location("alfworld_" + Path(path).stem, root() / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def layout(floor_plan: int, part: str) -> Any:
    """Read ``objects`` (types), ``openable`` (locations) or ``layout`` (free points)."""
    file = root() / "gen" / "layouts" / f"FloorPlan{floor_plan}-{part}"
    if part == "layout":
        import numpy

        return numpy.load(f"{file}.npy", allow_pickle=False).tolist()
    return json.loads(Path(f"{file}.json").read_text())
