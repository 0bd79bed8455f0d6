"""Trackers follow ``metrics.jsonl``: what it holds is shown once, whatever was killed in between."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envs.extensions import load
from records.metric_names import verl_name
from records.metrics import plain
from records.tracking.stage_run import StageRun

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """Rows of plain values."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


class Tracker(abc.ABC):
    """Made from a ``StageRun`` and the lines that were logged already, in earlier attempts at the stage."""

    @abc.abstractmethod
    def log(self, step: int, metrics: Line, tables: Mapping[str, Table]) -> None:
        """Steps rise; ``metrics`` are values of JSON."""

    def keep(self, step: int) -> None:
        """No later attempt will log this step or an earlier one again."""

    @abc.abstractmethod
    def finish(self, exit_code: int) -> None:
        """Everything on record. 0: the stage has ended well, so that all its steps are kept."""


CLASSES = {
    "tensorboard": "records.tracking.on_tensorboard:Tensorboard",
    "wandb": "records.tracking.on_wandb:Wandb",
    "trackio": "records.tracking.on_trackio:Trackio",
}


class Trackers:
    """All trackers of a stage as one."""

    def __init__(self, run: StageRun, logged: Sequence[Line] = ()) -> None:
        self._verl_names = run.verl_names
        before = [self._named(line) for line in logged]
        self._all: list[Tracker] = [load(CLASSES[name])(run, before) for name in run.trackers]

    def _named(self, metrics: Line) -> Line:
        """With verl's own names beside ours, if these are asked for."""
        both = {verl_name(name): value for name, value in metrics.items()} if self._verl_names else {}
        return {**both, **metrics}

    def log(self, step: int, metrics: Line, tables: Mapping[str, Table] | None = None) -> None:
        values = plain(self._named(metrics))
        for tracker in self._all:
            tracker.log(step, values, tables or {})

    def keep(self, step: int) -> None:
        for tracker in self._all:
            tracker.keep(step)

    def finish(self, exit_code: int = 0) -> None:
        for tracker in self._all:
            tracker.finish(exit_code)
        self._all = []
