"""The end of a run: what each stage reached on the test games, what it cost, and the learning curve."""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig

from experiments.evaluation.matrix import EvaluationResult, results_of
from experiments.evaluation.result import RunResult, StageResult
from experiments.evaluation.stage import Checkpoint, played
from experiments.stages.ledger import ledger
from experiments.stages.no_signal import NoSignal
from experiments.stages.plots import learning_curve
from records.ledger_entries import Entry, spent, write_ledger
from records.metrics import read_metrics
from records.resume import RlFolder
from records.stages import stage_seconds
from tasks.budget import Allocation
from tasks.evaluation_sets import evaluation_settings
from tasks.splits import skipped_games

PLOT = "learning_curve.png"
# Which ledger entries made which model.
CHARGED = {"base": (), "sft": ("demonstration", "alternative"), "rl": ("rl_episode",)}
TIMED = {"base": (), "sft": ("demonstrations", "experience", "sft"), "rl": ("rl",)}


def write(config: DictConfig, allocation: Allocation, folder: Path, checkpoints: list[Checkpoint]) -> RunResult:
    """Write ``ledger.jsonl``, the plot and, last, ``result.json``, which marks the run as finished."""
    entries, seconds = ledger(config, folder), stage_seconds(folder)
    metrics = list(read_metrics(RlFolder(folder).metrics))
    write_ledger(folder / "ledger.jsonl", entries)
    matrix, paired = results_of(
        evaluation_settings(config, folder),
        lambda item: {made.name: played(folder, made.name, item.label) for made in checkpoints},
    )
    stages = [_stage(*made, entries, seconds) for made in zip(checkpoints, matrix, strict=False)]
    units = sum(entry.units for entry in entries)
    result = RunResult(
        name=folder.name,
        folder=str(folder),
        seed=config.seed,
        stages=stages,
        units=units,
        units_left=config.budget.units - units,
        seconds=sum(seconds.values()),
        plot=PLOT,
        notes={
            **_notes(allocation, entries, seconds),
            "spent": spent(config, entries),
            "skipped": skipped_games(folder),
            "no_signal": NoSignal.of(config).note(metrics),
        },
        matrix=matrix,
        comparisons=paired,
    )
    learning_curve(result, metrics, folder / PLOT)
    result.write(folder)
    return result


def _stage(
    checkpoint: Checkpoint, first: EvaluationResult, entries: list[Entry], seconds: dict[str, float]
) -> StageResult:
    """``first``: the checkpoint's result in the first setting."""
    mine = [entry for entry in entries if entry.kind in CHARGED[checkpoint.name]]
    return StageResult(
        name=checkpoint.name,
        checkpoint=checkpoint.path,
        units=sum(entry.units for entry in mine),
        tokens=sum(entry.tokens for entry in mine),
        seconds=sum(seconds.get(name, 0.0) for name in TIMED[checkpoint.name]),
        **first.measures(),
    )


def _notes(allocation: Allocation, entries: list[Entry], seconds: dict[str, float]) -> dict[str, object]:
    """What the ledger counts in both ways, whichever of them is charged."""
    rl = [entry for entry in entries if entry.kind == "rl_episode"]
    return {
        "demonstrations": allocation.demonstrations,
        "rl_games": allocation.games,
        "rl_steps": allocation.steps,
        "rl_episodes_played": sum(entry.count for entry in rl),
        "retries": sum(entry.count for entry in entries if entry.kind == "retry"),
        "stage_seconds": {name: round(value, 2) for name, value in seconds.items()},
    }
