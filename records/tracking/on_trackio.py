"""trackio: a dashboard on this machine, without an account (``trackio show``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import trackio

from records.metrics import numbers
from records.tracking.stage_run import StageRun
from records.tracking.tracker import Line, Table, Tracker


class Trackio(Tracker):
    """A new attempt writes the stage anew: trackio would keep both versions of a step that was played twice.

    trackio has no job type, so the stage is in the run's name.
    """

    def __init__(self, run: StageRun, logged: Sequence[Line]) -> None:
        name = f"{run.name} {run.stage}"
        _delete(run, name)
        self._run = trackio.init(
            project=run.project,
            name=name,
            group=run.group,
            config={**run.config(), "tags": run.tags},
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        for line in logged:
            self.log(line["step"], line, {})

    def log(self, step: int, metrics: Line, tables: Mapping[str, Table]) -> None:
        shown = {
            name: trackio.Table(list(table.columns), [list(row) for row in table.rows])
            for name, table in tables.items()
        }
        self._run.log({**numbers(metrics), **shown}, step=step)

    def finish(self, exit_code: int) -> None:
        trackio.finish()


def _delete(run: StageRun, name: str) -> None:
    """What an earlier attempt left; another run of that name stays."""
    try:
        there = list(trackio.Api().runs(run.project))
    except ValueError:  # no such project yet
        return
    for old in there:
        if old.name == name and (old.config or {}).get("run", {}).get("id") == run.id:
            old.delete()
