"""A run from start to end: games, demonstrations, SFT, RL, evaluation, run summary.

Each stage writes its result atomically, and is skipped if the result exists. So repeating the
command resumes the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf

from turngrid.config import precision
from turngrid.envs.games.catalogue import cache_root
from turngrid.experiments.evaluation.ratings import ratings_of
from turngrid.experiments.evaluation.result import EvaluationResult, RunResult, StageResult, results_of
from turngrid.experiments.evaluation.stage import Checkpoint, evaluate, played
from turngrid.experiments.stages import experience, rl, sft
from turngrid.experiments.stages.ledger import Entry, ledger, spent, write_ledger
from turngrid.records.health.alarms import Curves, alarms
from turngrid.records.metrics import read_metrics
from turngrid.records.models.locate import check_hub, resolve_model
from turngrid.records.stages import WITHOUT_LIBRARY, stage, stage_seconds
from turngrid.records.statistics import WINDOW
from turngrid.rollouts.episode import Episode
from turngrid.tasks import demonstrations, early_experience
from turngrid.tasks.budget import Allocation
from turngrid.tasks.evaluation_sets import EvaluationSetting, prepare_evaluation_sets
from turngrid.tasks.run import Run
from turngrid.tasks.splits import prepare_tasks, skipped_games


def execute(run: Run) -> RunResult:
    """Run every stage of the config whose result is missing.

    Raises:
        ModelError: the model is not available; it is checked before any game is made.
        StageFailed: a stage's process failed; its log has the reason.
    """
    config, folder = run.config, run.folder
    base = resolve_model(config.model.path, cache_root())
    check_hub(base)
    if teacher := OmegaConf.select(config, "algo.teacher"):
        check_hub(resolve_model(str(teacher), cache_root()))
    with stage(folder, "games"):
        allocation = prepare_tasks(config, run.allocation, folder, avoid=prepare_evaluation_sets(config, folder))
    checkpoints = _train(run, allocation, base)
    with stage(folder, "evaluation"):
        evaluate(run, checkpoints, tracked=True)
    return write_summary(run, checkpoints)


def _train(run: Run, allocation: Allocation, base: str) -> list[Checkpoint]:
    checkpoints = [Checkpoint("base", base)]
    if allocation.demonstrations:
        checkpoints.append(Checkpoint("sft", _imitate(run, base)))
    if allocation.steps:
        with stage(run.folder, "rl"):
            model = rl.train(run, allocation, checkpoints[-1].path)
            checkpoints += _after_rl(run, str(model))
    return checkpoints


def _after_rl(run: Run, model: str) -> list[Checkpoint]:
    """Return the last checkpoint, of a run with a library twice (``eval.library``)."""
    wanted = (run.config.eval.library or "both") if run.config.get("library") else "none"
    return {
        "none": [Checkpoint("rl", model)],
        "frozen": [Checkpoint("rl", model, library=True)],
        "both": [Checkpoint(WITHOUT_LIBRARY, model), Checkpoint("rl", model, library=True)],
    }[wanted]


def _imitate(run: Run, base: str) -> str:
    """Run SFT on ``base`` and return the resulting model."""
    config, folder = run.config, run.folder
    shown = demonstrations.episodes_file(folder)
    if not shown.exists():
        with stage(folder, "demonstrations"):
            demonstrations.make_demonstrations(run, base)
    if early_experience.kind_of(config) and not early_experience.rows_file(folder).exists():
        with stage(folder, "experience"):
            experience.make_rows(run, base)
    with stage(folder, "sft"):
        return str(sft.train(run, shown, base))


if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLOT = "learning_curve.png"
FROZEN = "frozen as RL left it, in the evaluation of the model after RL"
TRAIN, VALIDATION = "success/train", "success/validation"
COLOURS = {"base": "#7f7f7f", "sft": "#ff7f0e", "rl": "#2ca02c"}  # grey, orange, green: apart also when printed grey
OTHER, VALIDATED = "#1f77b4", "#9467bd"
LABELS = {"base": "base", "sft": "SFT", "rl": "RL", WITHOUT_LIBRARY: "RL, without library"}
# Ledger entries and timed stages by the model that they made
CHARGED = {"base": (), "sft": ("demonstration", "alternative"), "rl": ("rl_episode",)}
TIMED = {"base": (), "sft": ("demonstrations", "experience", "sft"), "rl": ("rl",)}


def write_summary(run: Run, checkpoints: list[Checkpoint]) -> RunResult:
    """Write the ledger, the plot and, last, ``result.json``, which marks the run as finished."""
    config, folder = run.config, run.folder
    entries, seconds = ledger(run), stage_seconds(folder)
    metrics = list(read_metrics(run.rl.metrics))
    write_ledger(folder / "ledger.jsonl", entries)

    def by_checkpoint(item: EvaluationSetting) -> dict[str, list[Episode]]:
        return {made.name: played(folder, made.name, item.label) for made in checkpoints}

    matrix, paired = results_of(run.evaluation_settings, by_checkpoint)
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
            "spent": spent(config, entries),
            "skipped": skipped_games(folder),
            "precision": precision.explained(config),
            "library": FROZEN if any(made.library for made in checkpoints) else "",
            "no_signal": _no_signal(run, metrics),
        },
        matrix=matrix,
        comparisons=paired,
        ratings=ratings_of(run.evaluation_settings, by_checkpoint),
    )
    learning_curve(result, metrics, folder / PLOT)
    result.write(folder)
    return result


def _no_signal(run: Run, metrics: Sequence[Mapping[str, Any]]) -> str:
    """Return the first alarm of steps without signal, also with ``health=off``; "" without one."""
    if (limit := run.config.health.no_signal) is None:
        return ""
    raised = alarms(Curves.of(metrics, run.algorithm.needs_group), {"no_signal": limit})
    return str(raised[0]) if raised else ""


def _stage(
    checkpoint: Checkpoint, first: EvaluationResult, entries: list[Entry], seconds: Mapping[str, float]
) -> StageResult:
    """Return a checkpoint's result in the ``first`` evaluation setting, and its training cost."""
    mine = [entry for entry in entries if entry.kind in CHARGED.get(checkpoint.name, ())]
    return StageResult(
        name=checkpoint.name,
        checkpoint=checkpoint.path,
        units=sum(entry.units for entry in mine),
        tokens=sum(entry.tokens for entry in mine),
        seconds=sum(seconds.get(name, 0.0) for name in TIMED.get(checkpoint.name, ())),
        **first.measures(),
    )


def learning_curve(result: RunResult, metrics: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """Draw training success, and each stage's test success as a line in its 95 % interval.

    Args:
        metrics: one mapping per RL step with ``step`` and ``success/train`` (share of the step's
            episodes), some with ``success/validation`` and its bounds; empty without RL.
        path: the PNG to write and return; its folder exists.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # a second to import
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(fill(result.name, 90), fontsize=10)
    axes = figure.subplots()
    if metrics:
        _draw_training(axes, metrics)
    for made in result.stages:
        mean, low, high = (100 * share for share in (made.interval.mean, made.low, made.high))
        colour, name = COLOURS.get(made.name, OTHER), LABELS.get(made.name, made.name)
        axes.axhspan(low, high, color=colour, alpha=0.12, linewidth=0)
        label = f"{name}: {mean:.1f} [{low:.1f}, {high:.1f}] % of the test games"
        axes.axhline(mean, color=colour, linestyle="--", linewidth=1, label=label)
    axes.set(xlabel="RL step", ylabel="success (% of games)")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", alpha=0.25)
    axes.legend(fontsize=8)
    draft = path.with_name(f".{path.name}")
    figure.savefig(draft, dpi=150, format="png")
    return draft.replace(path)


def _draw_training(axes: Axes, metrics: Sequence[Mapping[str, Any]]) -> None:
    import pandas as pd
    from matplotlib.ticker import MaxNLocator

    ends = [f"{VALIDATION}/{end}" for end in ("low", "high")]
    curve = 100 * pd.DataFrame(metrics).set_index("step").reindex(columns=[TRAIN, VALIDATION, *ends]).astype(float)
    trained, validated = curve[TRAIN].dropna(), curve[[VALIDATION, *ends]].dropna()
    point = "o" if len(trained) == 1 else None  # a line through one point is invisible
    axes.plot(trained, color=OTHER, alpha=0.35, linewidth=1, marker=point, label="training games, each step")
    smooth = trained.rolling(WINDOW, min_periods=1).mean()
    axes.plot(smooth, color=OTHER, linewidth=2, label=f"the same, mean of {WINDOW} steps")
    if len(validated):
        bars = validated[ends].sub(validated[VALIDATION], axis=0).abs().T
        style: dict[str, Any] = {"fmt": "s", "color": VALIDATED, "markersize": 4, "capsize": 3}
        axes.errorbar(validated.index, validated[VALIDATION], bars, label="validation games, 95 %", **style)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
