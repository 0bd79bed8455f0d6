"""Applies ``changes.AFTER_IMPORT`` in every process of verl, right after it imports a module that the table names.

Doing it then, and not when this package is imported, keeps ``import verl`` light: its engines alone take two seconds.
"""

from __future__ import annotations

import importlib
import sys
from collections import defaultdict
from collections.abc import Sequence
from functools import reduce
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from verl_plugin.changes import AFTER_IMPORT, Around, Change, Instead


def _by_module() -> dict[str, list[Change]]:
    found: dict[str, list[Change]] = defaultdict(list)
    for change in AFTER_IMPORT:
        found[change.module].append(change)
    return dict(found)


HOOKS = _by_module()  # in the order of the table, by verl's module


def run(changes: Sequence[Change], module: ModuleType) -> None:
    for change in changes:
        ours, function = change.by.split(":")
        by = getattr(importlib.import_module(ours), function)
        *inside, name = change.name.split("(")[0].split(".")
        if isinstance(change, Instead | Around):
            place = reduce(getattr, inside, module)
            setattr(place, name, by(getattr(place, name)) if isinstance(change, Around) else by)
        else:
            by(module)


class _AfterImport(MetaPathFinder):
    """Finds verl's modules as Python would, and changes them once they have run."""

    def __init__(self) -> None:
        self.waiting = dict(HOOKS)

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        changes = self.waiting.pop(name, None)
        spec = find_spec(name) if changes else None  # comes back here, and goes on to the other finders
        if changes is None or spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_change(module: ModuleType) -> None:
            execute(module)
            run(changes, module)

        spec.loader.exec_module = execute_and_change  # type: ignore[method-assign]
        return spec


def install() -> None:
    """Wait for verl's modules; those that are there already are changed now."""
    if any(isinstance(finder, _AfterImport) for finder in sys.meta_path):
        return
    finder = _AfterImport()
    sys.meta_path.insert(0, finder)
    for name in list(finder.waiting):
        module = sys.modules.get(name)
        if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
            run(finder.waiting.pop(name), module)
