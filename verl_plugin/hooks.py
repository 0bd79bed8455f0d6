"""Apply the tables of ``changes`` in every process of verl, right after it imports a listed module.

Applied when this package is imported, they would make ``import verl`` two seconds slower.
"""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce, wraps
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

from wrapt import register_post_import_hook

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


def install() -> None:
    """Change verl's modules as soon as they are imported, and those that are already."""
    for name in {*WRAPPED, *REPLACED, *REGISTERING}:
        register_post_import_hook(run, name)
