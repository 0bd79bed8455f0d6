"""A run's metrics: append-only JSON lines, each step once."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


class MetricsLog:
    """One line a step, flushed to disk before ``append`` returns.

    verl's own ``file`` logger truncates the file when a run is resumed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)

    def append(self, step: int, metrics: Mapping[str, Any]) -> None:
        line = json.dumps({"step": step, **{key: _plain(value) for key, value in sorted(metrics.items())}})
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """Whole lines only: the last one may have been cut by a kill."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            return


def _plain(value: Any) -> Any:
    """A JSON value; numbers that are not finite become None, since JSON has no word for them."""
    item = value.item() if hasattr(value, "item") else value
    if isinstance(item, float) and not math.isfinite(item):
        return None
    return item if isinstance(item, int | float | str | bool | None) else str(item)
