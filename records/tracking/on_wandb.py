"""Weights & Biases, online and offline.

A killed run goes on under its id, and W&B's server takes each step once. Online, steps are sent as they come, so that a step
beyond the last checkpoint stays as the killed attempt sent it. Offline, a step is written once its checkpoint is whole, and each
attempt writes all lines of ``metrics.jsonl`` again: after ``wandb sync`` the server holds these lines, whatever a kill lost.

All stages are one run there: each begins where the one before it ended, and what it logs is drawn over its own ``STAGE/step``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import wandb

from records.metrics import read_metrics
from records.tracking.stage_run import StageRun
from records.tracking.tracker import Line, Table, Tracker

Waiting = tuple[int, Line, Mapping[str, Table]]


STAGES = ("sft", "rl", "evaluation")  # in their order


class Wandb(Tracker):
    """One stage of one W&B run."""

    def __init__(self, run: StageRun, logged: Sequence[Line]) -> None:
        self._waiting: list[Waiting] = []
        self._run = wandb.init(
            project=run.project,
            name=run.name,
            group=run.group,
            tags=run.tags,
            id=run.id,
            resume="allow",
            dir=run.folder,
            config=run.config(),
            mode="offline" if run.offline else None,
        )
        self._axis, self._before = f"{run.stage}/step", steps_before(run)
        self._drawn: set[str] = set()
        self._offline = self._run.offline
        self._sent = -1 if self._offline else self._run.starting_step - 1
        for line in logged:
            self._send(line["step"], line, {})

    def log(self, step: int, metrics: Line, tables: Mapping[str, Table]) -> None:
        if self._offline:
            self._waiting.append((step, metrics, tables))
        else:
            self._send(step, metrics, tables)

    def keep(self, step: int) -> None:
        ready = [waiting for waiting in self._waiting if waiting[0] <= step]
        self._waiting = [waiting for waiting in self._waiting if waiting[0] > step]
        for waiting in ready:
            self._send(*waiting)

    def finish(self, exit_code: int) -> None:
        if self._waiting and exit_code == 0:
            self.keep(self._waiting[-1][0])
        self._run.finish(exit_code)

    def _send(self, step: int, metrics: Line, tables: Mapping[str, Table]) -> None:
        place = self._before + step
        if place <= self._sent:
            return
        values = {name: value for name, value in metrics.items() if value is not None and name != "step"}
        shown = {
            name: wandb.Table(columns=list(table.columns), data=list(table.rows)) for name, table in tables.items()
        }
        for name in sorted(values.keys() - self._drawn):  # over this stage's steps
            self._run.define_metric(name, step_metric=self._axis)
        self._drawn |= values.keys()
        self._run.log({self._axis: step, **values, **shown}, step=place, commit=True)
        self._sent = place


def steps_before(run: StageRun) -> int:
    """The W&B step on which the stage's own steps are counted: the last ones of the stages before, summed. An evaluation's own
    steps begin with 0."""
    logs = [Path(run.folder) / stage / "metrics.jsonl" for stage in STAGES[: STAGES.index(run.stage)]]
    last = [max((line["step"] for line in read_metrics(log)), default=0) for log in logs]
    return sum(last) + (run.stage == "evaluation")
