"""How long each stage took, over all the attempts that it needed."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def _file(folder: Path) -> Path:
    return folder / "stages.jsonl"


@contextmanager
def stage(folder: Path, name: str) -> Iterator[None]:
    """Time a stage, also one that fails; a killed one leaves no line, and its seconds are not known."""
    start = time.perf_counter()
    outcome = "failed"
    try:
        yield
        outcome = "done"
    finally:
        line = {"stage": name, "seconds": time.perf_counter() - start, "outcome": outcome, "ended": time.time()}
        with _file(folder).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def stage_seconds(folder: Path) -> dict[str, float]:
    """Wall seconds by stage."""
    seconds: dict[str, float] = defaultdict(float)
    if _file(folder).exists():
        for line in _file(folder).read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            seconds[entry["stage"]] += entry["seconds"]
    return dict(seconds)
