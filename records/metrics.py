"""A run's metrics: append-only JSON lines, each step once, under the names of ``records.metric_names``."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from records.files.json_lines import read_lines


class MetricsLog:
    """One line a step, flushed to disk before ``append`` returns.

    verl's own ``file`` logger truncates the file when a run is resumed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)

    def append(self, step: int, metrics: Mapping[str, Any]) -> None:
        line = json.dumps({"step": step, **plain(metrics)})
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """Whole lines only: the last one may have been cut by a kill, and ``records.mending.mend`` has named any other."""
    for line in read_lines(path).whole.values():
        yield json.loads(line)


def plain(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """In order of name, as values of JSON."""
    return {name: _plain(value) for name, value in sorted(metrics.items())}


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """What trackers can draw: finite numbers alone."""
    return {name: value for name, value in metrics.items() if isinstance(value, int | float) and name != "step"}


def _plain(value: Any) -> Any:
    """A JSON value; numbers that are not finite become None, since JSON has no word for them."""
    item = value.item() if hasattr(value, "item") else value
    if isinstance(item, float) and not math.isfinite(item):
        return None
    return item if isinstance(item, int | float | str | bool | None) else str(item)
