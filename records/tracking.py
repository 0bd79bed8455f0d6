"""Trackers of a run: tensorboard, trackio and Weights & Biases show every step once.

verl's ``Tracking`` starts a new run at each attempt. These three are opened here, under ids that
stay the same after a kill. A ``StageRun`` is passed to the stage's process in its config file:
environment variables would leak from one run into the next.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from turngrid.records.files.json_lines import read_lines
from turngrid.records.metrics import numbers, plain
from turngrid.records.provenance import last_attempt

TAG_LETTERS, ID_LETTERS = 64, 80  # W&B refuses longer tags; ids are in its URLs and folders
Line = Mapping[str, Any]
STAGES = ("sft", "rl", "evaluation")  # in their order


@dataclass(frozen=True)
class StageRun:
    """A stage (sft, rl, evaluation) of a run in trackers; in W&B all stages are one run."""

    folder: str  # the run folder, which holds ``config.yaml``
    stage: str
    project: str
    name: str  # the user's name of the run, the same for each of its stages
    group: str  # the sweep or grid; else the folder's name
    id: str  # the same after a kill or a requeue; another after ``fresh=true``
    tags: list[str]  # of settings and commit (10 hex), then the user's
    trackers: list[str]  # which of ``TRACKERS``
    offline: bool = False  # W&B without network

    def config(self) -> dict[str, Any]:
        """Return the run's resolved config, its id and folder, commit and packages."""
        composed: Any = OmegaConf.to_container(OmegaConf.load(Path(self.folder) / "config.yaml"))
        attempt = last_attempt(Path(self.folder))
        return json.loads(json.dumps(composed)) | {  # JSON makes text of keys that are numbers
            "run": {"id": self.id, "folder": Path(self.folder).name},
            "provenance": asdict(attempt) if attempt else {},
        }

    def is_logged(self) -> bool:
        """Return whether trackers have the evaluation; other stages need no mark."""
        return not self.trackers or self.mark.exists()

    @property
    def mark(self) -> Path:
        """The file that exists once trackers have every line; a kill before that logs again."""
        return Path(self.folder) / self.stage / ".tracked"


class Tracker:
    """A tracker of one stage.

    Subclasses are made from a ``StageRun`` and the lines that earlier attempts at the stage logged.
    """

    def log(self, step: int, metrics: Line) -> None:
        """Log JSON values of a step; steps increase."""

    def keep(self, step: int) -> None:
        """Mark the steps up to this one as final: no later attempt logs them again."""

    def alert(self, title: str, text: str) -> None:
        """Show an alarm, if the tracker has alerts."""

    def finish(self, exit_code: int) -> None:
        """Write everything. Exit code 0 means success, so that all steps are final."""


class Tensorboard(Tracker):
    """Event files in ``tensorboard/STAGE``; ``purge_step`` hides steps of killed attempts."""

    def __init__(self, run: StageRun, logged: Sequence[Line]) -> None:
        from torch.utils.tensorboard import SummaryWriter  # a second to import

        first = max((line["step"] for line in logged), default=-1) + 1
        self._writer = SummaryWriter(f"{run.folder}/tensorboard/{run.stage}", purge_step=first)

    def log(self, step: int, metrics: Line) -> None:
        for name, value in numbers(metrics).items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def finish(self, exit_code: int) -> None:
        self._writer.close()


class Trackio(Tracker):
    """A dashboard on this machine, without an account (``trackio show``).

    trackio would keep both versions of a repeated step, so an attempt replaces the stage's run.
    trackio has no job type, so the stage is in the run's name.
    """

    def __init__(self, run: StageRun, logged: Sequence[Line]) -> None:
        import trackio

        self._trackio, name = trackio, f"{run.name} {run.stage}"
        with suppress(ValueError):  # no such project yet
            for old in list(trackio.Api().runs(run.project)):  # what an earlier attempt left, and no other run
                if old.name == name and (old.config or {}).get("run", {}).get("id") == run.id:
                    old.delete()
        options: dict[str, Any] = {"embed": False, "auto_log_gpu": False, "auto_log_cpu": False}
        config = {**run.config(), "tags": run.tags}
        self._run = trackio.init(project=run.project, name=name, group=run.group, config=config, **options)
        for line in logged:
            self.log(line["step"], line)

    def log(self, step: int, metrics: Line) -> None:
        self._run.log(numbers(metrics), step=step)

    def finish(self, exit_code: int) -> None:
        self._trackio.finish()


class Wandb(Tracker):
    """Weights & Biases, online and offline; all stages of a run are one W&B run.

    W&B's server accepts each step once. Online, steps are sent at once. Offline, a step is written
    after its checkpoint is complete. Each attempt writes all lines of ``metrics.jsonl`` again, so
    that ``wandb sync`` sends exactly these.

    A stage's W&B steps follow those of earlier stages; its metrics are plotted over ``STAGE/step``.
    """

    def __init__(self, run: StageRun, logged: Sequence[Line]) -> None:
        import wandb

        self._waiting: list[tuple[int, Line]] = []
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
            self._send(line["step"], line)

    def log(self, step: int, metrics: Line) -> None:
        if self._offline:
            self._waiting.append((step, metrics))
        else:
            self._send(step, metrics)

    def keep(self, step: int) -> None:
        while self._waiting and self._waiting[0][0] <= step:
            self._send(*self._waiting.pop(0))

    def alert(self, title: str, text: str) -> None:
        self._run.alert(title, text, level="WARN", wait_duration=0)

    def finish(self, exit_code: int) -> None:
        if self._waiting and exit_code == 0:
            self.keep(self._waiting[-1][0])
        self._run.finish(exit_code)

    def _send(self, step: int, metrics: Line) -> None:
        wandb_step = self._before + step
        if wandb_step <= self._sent:
            return
        values = {name: value for name, value in metrics.items() if value is not None and name != "step"}
        for name in sorted(values.keys() - self._drawn):  # over this stage's steps
            self._run.define_metric(name, step_metric=self._axis)
        self._drawn |= values.keys()
        self._run.log({self._axis: step, **values}, step=wandb_step, commit=True)
        self._sent = wandb_step


def steps_before(run: StageRun) -> int:
    """Return the number of W&B steps of the stages before; a stage may begin with step 0."""
    logs = [Path(run.folder) / stage / "metrics.jsonl" for stage in STAGES[: STAGES.index(run.stage)]]
    return sum(max((line["step"] for line in read_lines(log)), default=-1) + 1 for log in logs)


# verl's loggers that are opened here
TRACKERS: Mapping[str, Any] = {"tensorboard": Tensorboard, "wandb": Wandb, "trackio": Trackio}


class Trackers:
    """All trackers of a stage as one."""

    def __init__(self, run: StageRun, logged: Sequence[Line] = ()) -> None:
        self._all: list[Tracker] = [TRACKERS[name](run, logged) for name in run.trackers]

    def log(self, step: int, metrics: Line) -> None:
        values = plain(metrics)
        for tracker in self._all:
            tracker.log(step, values)

    def keep(self, step: int) -> None:
        for tracker in self._all:
            tracker.keep(step)

    def alert(self, title: str, text: str) -> None:
        for tracker in self._all:
            tracker.alert(title, text)

    def finish(self, exit_code: int = 0) -> None:
        for tracker in self._all:
            tracker.finish(exit_code)
        self._all = []
