"""A run of which only Weights & Biases' logs are left: its config, its curve and, of its evaluation, the matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.evaluation import result
from experiments.evaluation.matrix import EvaluationResult
from experiments.evaluation.result import RunResult, StageResult, State
from experiments.report.curve import curve_of
from experiments.report.runs import Run
from records.provenance import Attempt
from records.run_folder import flattened
from records.statistics import wilson

if TYPE_CHECKING:
    from records.tracking.wandb_log import WandbRun

MATRIX = "evaluation/matrix"
STAGES = ("sft", "rl", "evaluation")
BESIDES = ("run", "provenance")  # what records.tracking puts beside a run's config


def is_wandb(folder: Path) -> bool:
    """The folder has W&B's logs and no result of ours."""
    return not (folder / result.FILE).exists() and any(folder.glob("wandb/*run-*/run-*.wandb"))


def read_wandb(folder: Path) -> Run:
    """Games are not told apart in the logs, so intervals are Wilson's and nothing is paired.

    Raises:
        ValueError: a log is damaged.
    """
    from records.tracking.wandb_log import read_runs  # protobuf: a second to import

    found = read_runs(folder)
    lines = {stage: [line for run in found for line in run.stage(stage)] for stage in STAGES}
    config = next((run.config for run in found if run.config), {})
    settings = dict(flattened({name: node for name, node in config.items() if name not in BESIDES}))
    evaluations = [evaluation for run in found if run.stage("evaluation") for evaluation in _evaluations(run)]
    told = ", ".join(stage for stage, logged in lines.items() if logged)
    seed = int(settings.get("seed", 0))
    return Run(
        folder=folder,
        coordinates={},
        seed=seed,
        state=State.FINISHED if evaluations else State.UNFINISHED,
        settings=settings,
        reason="" if evaluations else f"only W&B logs, of {told}, and no evaluation among them",
        result=_result(folder, seed, evaluations) if evaluations else None,
        attempts=[Attempt(**config["provenance"])] if config.get("provenance") else [],
        curve=curve_of(lines["rl"]),
    )


def _evaluations(run: WandbRun) -> list[EvaluationResult]:
    """The matrix as logged; the evaluation set's hash is not in it."""
    try:
        table = run.table(MATRIX)
    except (KeyError, ValueError):
        return []
    return [_evaluation(dict(zip(table["columns"], row, strict=True))) for row in table["data"]]


def _evaluation(row: Mapping[str, Any]) -> EvaluationResult:
    known = {name: value for name, value in row.items() if name in {field.name for field in fields(EvaluationResult)}}
    bounds = wilson(row["successes"], row["games"] * row["samples_per_game"])
    optimal = row.get("optimal_turns")
    missing: dict[str, Any] = {
        "games_hash": f"w&b {row['env']}/{row['task']} {row['games']}",
        "out_of_reach": 0,
        "outcomes": {},
        "low": bounds.low,
        "high": bounds.high,
        "turns_over_optimal": row["max_turns"] / optimal if optimal else None,
    }
    return EvaluationResult(**{**missing, **known})


def _result(folder: Path, seed: int, evaluations: Sequence[EvaluationResult]) -> RunResult:
    first = [evaluation for evaluation in evaluations if evaluation.column == evaluations[0].column]
    stages = [StageResult(name=evaluation.policy, checkpoint="", **evaluation.measures()) for evaluation in first]
    return RunResult(folder.name, str(folder), seed, stages, units=0.0, matrix=evaluations)
