"""Replace a name in a module or class temporarily."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def replaced(module: ModuleType | type, name: str, value: Any) -> Iterator[None]:
    """Set ``module.name`` to ``value`` inside the block."""
    original = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, original)
