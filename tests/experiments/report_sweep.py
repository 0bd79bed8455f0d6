"""Sweeps of synthetic runs to work out by hand: 20 games, wins chosen one by one."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.synthetic_runs import begin_run, make_run
from turngrid.experiments.report.gather import Subject, subjects
from turngrid.experiments.sweep import record
from turngrid.experiments.sweep.definition import Layout, Selector, Takeaway
from turngrid.experiments.sweep.record import Sweep, SweepRun
from turngrid.records.run_folder import FAILURE

GAMES = 20
BASE = [1] * 4 + [0] * 16  # 20 %
TASK = "w2-o3-q4"
FAILED = "rl ended with exit code 1; see {folder}/logs/rl.log\nMemoryError: <b>no room</b> | none"


def wins(count: int, first: int = 0) -> list[int]:
    """``count`` games in a row, from ``first`` on."""
    return [int(first <= game < first + count) for game in range(GAMES)]


class SweepMaker:
    """Adds runs to a sweep, then writes its record."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.runs: list[SweepRun] = []

    def run(self, played: Mapping[str, Any], seed: int, curve: Sequence[float] = (), **axes: str) -> Path:
        """``played``: stage -> wins, or stage -> evaluation set -> wins."""
        evaluation_sets = {stage: won if isinstance(won, dict) else {TASK: won} for stage, won in played.items()}
        config = {"env": {"name": "textworld", "task": axes.get("task", TASK)}, "algo": {"name": axes.get("algo")}}
        return make_run(self.output / self._add(seed, axes), evaluation_sets, seed, config, curve)

    def unfinished(self, seed: int, curve: Sequence[float] = (), **axes: str) -> Path:
        return begin_run(self.output / self._add(seed, axes), seed, curve=curve)

    def failed(self, seed: int, **axes: str) -> Path:
        folder = self.unfinished(seed, **axes)
        (folder / FAILURE).write_text(json.dumps({"message": FAILED.format(folder=folder), "ended": 2.0}))
        return folder

    def not_started(self, seed: int, **axes: str) -> None:
        self._add(seed, axes)

    def _add(self, seed: int, axes: Mapping[str, str]) -> str:
        folder = "-".join([*axes.values(), f"s{seed}"])
        self.runs.append(SweepRun(dict(axes), seed, [], folder))
        return folder

    def write(
        self,
        rows: dict[str, Selector],
        columns: dict[str, Selector],
        takeaways: Sequence[Takeaway] = (),
        published: str | None = None,
        name: str = "table10_algorithms",
    ) -> Path:
        about = ("Algorithms & rewards", "Which <algorithm> learns?", published, "tiny stands for 1.5B")
        layout = Layout(rows=rows, columns=columns)
        return record.write(Sweep(name, "laptop", *about, layout, tuple(takeaways), [], self.runs), self.output)

    def subject(self, *args: Any, **more: Any) -> Subject:
        (found,) = subjects([self.write(*args, **more)])
        return found


def claim(higher: dict[str, Any], lower: dict[str, Any]) -> Takeaway:
    return Takeaway("the first is better", higher, lower)
