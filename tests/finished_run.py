"""A run's folder as it is after its last stage, for tests that need any finished run."""

from collections.abc import Sequence
from pathlib import Path

from turngrid.config.compose import compose
from turngrid.experiments.evaluation.result import RunResult, StageResult
from turngrid.records.run_folder import run_name

ONE_OF_TWO = {
    "successes": 1,
    "games": 2,
    "low": 0.1,
    "high": 0.9,
    "mean_turns_to_success": 3.0,
    "invalid_share": 0.25,
    "outcomes": {"won": 1, "out_of_turns": 1},
    "temperature": 0.4,
    "max_turns": 12,
    "games_hash": "0" * 8,
}


def finish(folder: Path) -> Path:
    """One of two games was won by the base model."""
    folder.mkdir(parents=True)
    base = StageResult("base", "asset://tiny", **ONE_OF_TWO)
    RunResult(folder.name, str(folder), 0, [base], units=0.0).write(folder)
    return folder


def finished(root: Path, overrides: Sequence[str]) -> Path:
    """The folder that a run with these overrides has under ``root``."""
    return finish(root / run_name(compose(list(overrides))))
