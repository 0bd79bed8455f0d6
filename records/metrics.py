"""Read and write a run's metrics: one JSON line a step, without duplicates after a resume."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from turngrid.records.files.json_lines import append_line, read_lines


class MetricsLog:
    """One line a step, flushed to disk before ``append`` returns.

    verl's own ``file`` logger truncates the file when a run is resumed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, step: int, metrics: Mapping[str, Any]) -> None:
        append_line(self.path, {"step": step, **plain(metrics)})


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the whole lines; a kill may have cut one short."""
    return (json.loads(line) for line in read_lines(path))


def plain(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics in order of name, as values of JSON."""
    return {name: _plain(value) for name, value in sorted(metrics.items())}


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics that trackers can draw: finite numbers."""
    return {name: value for name, value in metrics.items() if isinstance(value, int | float) and name != "step"}


def _plain(value: Any) -> Any:
    """Return a JSON value; None for a number that is not finite."""
    item = value.item() if hasattr(value, "item") else value
    if isinstance(item, float) and not math.isfinite(item):
        return None
    return item if isinstance(item, int | float | str | bool | None) else str(item)
