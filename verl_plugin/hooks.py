"""Apply the tables of ``changes`` in every process of verl, right after it imports a listed module.

Applied when this package is imported, they would make ``import verl`` two seconds slower.
"""

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce, wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

from turngrid.verl_plugin.changes import REGISTERING, REPLACED, WRAPPED


def run(module: ModuleType) -> None:
    """Apply the changes of one of verl's modules, then import our module that registers with it."""
    for name, by in WRAPPED.get(module.__name__, {}).items():
        owner, own = _find(module, name)
        usual = getattr(owner, own)
        ours = resolve_name(by)
        setattr(owner, own, around(usual, ours) if callable(usual) else ours(usual))
    for name, by in REPLACED.get(module.__name__, {}).items():
        owner, own = _find(module, name)
        setattr(owner, own, resolve_name(by))
    if registering := REGISTERING.get(module.__name__):
        importlib.import_module(registering)


def around(usual: Callable[..., Any], by: Callable[..., Any]) -> Callable[..., Any]:
    """Return verl's function with ours around it, which gets verl's as its first argument."""

    @wraps(usual)
    def called(*args: Any, **kwargs: Any) -> Any:
        return by(usual, *args, **kwargs)

    return called


def _find(module: ModuleType, name: str) -> tuple[Any, str]:
    *inside, own = name.split(".")
    return reduce(getattr, inside, module), own


@contextmanager
def replaced(module: ModuleType | type, name: str, value: Any) -> Iterator[None]:
    """Set ``module.name`` to ``value`` inside the block."""
    original = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, original)


class AfterImport(MetaPathFinder):
    """Import hook that finds verl's modules and changes them once they have run."""

    def __init__(self) -> None:
        self.waiting = {*WRAPPED, *REPLACED, *REGISTERING}

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in self.waiting:
            return None
        self.waiting.remove(name)
        spec = find_spec(name)  # calls this finder again, which now defers to the others
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_change(module: ModuleType) -> None:
            execute(module)
            run(module)

        spec.loader.exec_module = execute_and_change  # type: ignore[method-assign]
        return spec


def install() -> None:
    """Install the import hook; change modules of verl that are already imported."""
    finder = AfterImport()
    sys.meta_path.insert(0, finder)
    for name in list(finder.waiting):
        module = sys.modules.get(name)
        if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
            finder.waiting.remove(name)
            run(module)
