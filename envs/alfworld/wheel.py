"""What the alfworld package ships and games are made of: domain, grammar, floor plans, goals, affordances.

Its files are read where they lie. Importing the package itself would create a folder in the user's home and set
``ALFWORLD_DATA``, which says here whether there is official data.
"""

from __future__ import annotations

import functools
import importlib.util
import json
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from envs.types import TaskError

MISSING = "env=alfworld needs the package alfworld, which is not installed (pip install alfworld)"


def version() -> str:
    """The installed alfworld's version. Raises: TaskError where there is none."""
    try:
        return metadata.version("alfworld")
    except metadata.PackageNotFoundError:
        raise TaskError(MISSING) from None


@functools.cache
def root() -> Path:
    """The package's folder. Raises: TaskError where there is none."""
    found = importlib.util.find_spec("alfworld")
    if found is None or not found.submodule_search_locations:
        raise TaskError(MISSING)
    return Path(next(iter(found.submodule_search_locations)))


@functools.cache
def domain() -> str:
    return (root() / "data" / "alfred.pddl").read_text()


@functools.cache
def grammar() -> str:
    """The texts, with ``UNKNOWN GOAL`` where the task is told."""
    return (root() / "data" / "alfred.twl2").read_text()


@functools.cache
def constants() -> ModuleType:
    """What exists in the simulator, what holds what, which floor plans are for training."""
    return _module("gen/constants.py")


@functools.cache
def goals() -> dict[str, dict[str, Any]]:
    """Each task type's goal in PDDL (``pddl``) and in words (``templates``)."""
    return _module("gen/goal_library.py").gdict


def _module(path: str) -> ModuleType:
    """One file as a module of its own, without its package."""
    spec = importlib.util.spec_from_file_location("alfworld_" + Path(path).stem, root() / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def layout(floor_plan: int, part: str) -> Any:
    """``objects`` (types), ``openable`` (receptacle -> where to stand) or ``layout`` (free points, metres)."""
    file = root() / "gen" / "layouts" / f"FloorPlan{floor_plan}-{part}"
    if part == "layout":
        import numpy

        return numpy.load(f"{file}.npy", allow_pickle=False).tolist()
    return json.loads(Path(f"{file}.json").read_text())
