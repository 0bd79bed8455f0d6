"""Event files under ``tensorboard/STAGE`` in the run folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from records.metrics import numbers
from records.tracking.stage_run import StageRun
from records.tracking.tracker import Line, Table, Tracker


class Tensorboard(Tracker):
    """A new attempt writes the stage's events anew: an event file that was killed lacks its end, and tensorboard would
    show a step that was played twice in both ways."""

    def __init__(self, run: StageRun, logged: Sequence[Line]) -> None:
        from torch.utils.tensorboard import SummaryWriter  # a second to import

        folder = Path(run.folder) / "tensorboard" / run.stage
        for old in folder.glob("events.out.tfevents.*"):
            old.unlink()
        self._writer = SummaryWriter(str(folder))
        for line in logged:
            self.log(line["step"], line, {})

    def log(self, step: int, metrics: Line, tables: Mapping[str, Table]) -> None:
        for name, value in numbers(metrics).items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def finish(self, exit_code: int) -> None:
        self._writer.close()
