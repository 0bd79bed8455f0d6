"""The end of a run: what each stage reached on the test games, what it cost, and the learning curve."""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig

from envs.catalogue import panel_hash
from experiments.budget import Plan
from experiments.evaluation import Checkpoint, played
from experiments.ledger import Entry, ledger, spent, write_ledger
from experiments.metrics import read_metrics
from experiments.plots import learning_curve
from experiments.result import RunResult, StageResult, summarise
from experiments.resume import RlFolder
from experiments.stages import stage_seconds
from experiments.tasks import read_tasks, task_file

PLOT = "learning_curve.png"
CHARGED = {"base": (), "sft": ("demonstration",), "rl": ("rl_episode",)}  # which ledger entries made which model
TIMED = {"base": (), "sft": ("demonstrations", "sft"), "rl": ("rl",)}


def write(config: DictConfig, plan: Plan, folder: Path, checkpoints: list[Checkpoint]) -> RunResult:
    """Write ``ledger.jsonl``, the plot and, last, ``result.json``, which marks the run as finished."""
    entries, seconds = ledger(config, folder), stage_seconds(folder)
    write_ledger(folder / "ledger.jsonl", entries)
    panel = panel_hash(read_tasks(task_file(folder, "test")))
    stages = [_stage(config, folder, checkpoint, entries, seconds, panel) for checkpoint in checkpoints]
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
        notes={**_notes(plan, entries, seconds), "spent": spent(config, entries)},
    )
    learning_curve(result, list(read_metrics(RlFolder(folder).metrics)), folder / PLOT)
    result.write(folder)
    return result


def _stage(
    config: DictConfig,
    folder: Path,
    checkpoint: Checkpoint,
    entries: list[Entry],
    seconds: dict[str, float],
    panel: str,
) -> StageResult:
    mine = [entry for entry in entries if entry.kind in CHARGED[checkpoint.name]]
    return StageResult(
        name=checkpoint.name,
        temperature=config.eval.temperature,
        max_turns=config.env.max_turns,
        checkpoint=checkpoint.path,
        panel_hash=panel,
        units=sum(entry.units for entry in mine),
        tokens=sum(entry.tokens for entry in mine),
        seconds=sum(seconds.get(name, 0.0) for name in TIMED[checkpoint.name]),
        **summarise(played(folder, checkpoint.name)),
    )


def _notes(plan: Plan, entries: list[Entry], seconds: dict[str, float]) -> dict[str, object]:
    """What the ledger counts in both ways, whichever of them is charged."""
    rl = [entry for entry in entries if entry.kind == "rl_episode"]
    return {
        "demonstrations": plan.demonstrations,
        "rl_games": plan.games,
        "rl_steps": plan.steps,
        "rl_episodes_played": sum(entry.count for entry in rl),
        "retries": sum(entry.count for entry in entries if entry.kind == "retry"),
        "stage_seconds": {name: round(value, 2) for name, value in seconds.items()},
    }
