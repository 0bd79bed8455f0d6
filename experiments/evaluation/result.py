"""A run's result, ``result.json`` in its folder: one ``StageResult`` for each evaluated model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from turngrid.envs.utils.files import write_whole
from turngrid.experiments.evaluation.matrix import EvaluationResult, Measures, PairedComparison
from turngrid.records.process.exit_codes import Refusal
from turngrid.records.provenance import ATTEMPTS
from turngrid.records.run_folder import read_failure

FILE = "result.json"


class State(StrEnum):
    """A run's state. From its folder, a running run and a killed one look the same: unfinished."""

    FINISHED = "finished"
    FAILED = "failed"
    UNFINISHED = "unfinished"
    NOT_STARTED = "not started"


def state(folder: Path) -> State:
    """Return the state read from the run's folder, the only trace of a job on another machine."""
    with suppress(DamagedResult):
        if RunResult.read(folder):
            return State.FINISHED
    if read_failure(folder):
        return State.FAILED
    return State.UNFINISHED if (folder / ATTEMPTS).exists() else State.NOT_STARTED


class DamagedResult(Refusal):
    """A result cannot be read."""


@dataclass(frozen=True)
class StageResult(Measures):
    """The result of one model on the first evaluation set, and what making that model cost.

    Attributes:
        name: the stage that made it: ``base``, ``sft`` or ``rl``.
        checkpoint: the folder or name of the model.
        units: budget units that the stage spent.
        tokens: sampled in training.
        seconds: wall seconds of the stage over all attempts, without evaluation.
    """

    name: str
    checkpoint: str
    units: float = 0.0
    tokens: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    Attributes:
        stages: results on the first evaluation set at the first temperature.
        units, units_left: of the budget.
        plot: relative to the run folder.
        matrix: results on every evaluation set.
        comparisons: of every two checkpoints.
    """

    name: str
    folder: str
    seed: int
    stages: Sequence[StageResult]
    units: float
    units_left: float = 0.0
    seconds: float = 0.0
    plot: str = ""
    notes: Mapping[str, Any] = field(default_factory=dict)
    matrix: Sequence[EvaluationResult] = field(default_factory=list)
    comparisons: Sequence[PairedComparison] = field(default_factory=list)

    def stage(self, name: str) -> StageResult | None:
        return next((stage for stage in self.stages if stage.name == name), None)

    def write(self, folder: Path) -> Path:
        """Write ``result.json`` atomically."""
        path = folder / FILE
        write_whole(path, json.dumps(asdict(self), indent=2, sort_keys=True) + "\n")
        return path

    @classmethod
    def read(cls, folder: Path) -> RunResult | None:
        """Return the result of a run; None if it is not finished.

        Raises:
            DamagedResult: it cannot be read.
        """
        path = folder / FILE
        if not path.exists():
            return None
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            parts = {
                "stages": [StageResult(**stage) for stage in data["stages"]],
                "matrix": [EvaluationResult(**evaluation) for evaluation in data.get("matrix", ())],
                "comparisons": [PairedComparison(**comparison) for comparison in data.get("comparisons", ())],
            }
            return cls(**{**data, **parts})
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedResult(f"{path} cannot be read; the same command makes it again") from error
