"""The stages of a run: their names in tables, and each one's seconds over all attempts."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from turngrid.records.files.json_lines import append_line, read_lines

FILE = "stages.jsonl"
WITHOUT_LIBRARY = "rl_without_library"  # the model of RL without the texts that it was trained with
NAMES = {"base": "base model", "sft": "after SFT", "rl": "after RL", WITHOUT_LIBRARY: "after RL, without library"}


def stage_name(name: str) -> str:
    return NAMES.get(name, name)


@contextmanager
def stage(folder: Path, name: str) -> Iterator[None]:
    """Record a stage's seconds, even if it fails; a killed stage leaves no line."""
    start = time.perf_counter()
    outcome = "failed"
    try:
        yield
        outcome = "done"
    finally:
        line = {"stage": name, "seconds": time.perf_counter() - start, "outcome": outcome, "ended": time.time()}
        append_line(folder / FILE, line)


def stage_seconds(folder: Path) -> dict[str, float]:
    """Return wall seconds by stage."""
    seconds: dict[str, float] = defaultdict(float)
    for entry in read_lines(folder / FILE):
        seconds[entry["stage"]] += entry["seconds"]
    return dict(seconds)


def stage_ended(folder: Path) -> dict[str, float]:
    """Return when each stage ended, in Unix seconds.

    That is the end of its longest attempt: later attempts skip a finished stage.
    """
    attempts = sorted(read_lines(folder / FILE), key=lambda entry: entry["seconds"])
    return {entry["stage"]: entry["ended"] for entry in attempts}
