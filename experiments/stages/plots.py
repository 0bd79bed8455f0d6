"""The learning curve of a run as a PNG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from experiments.evaluation.result import RunResult, StageResult
from records.statistics import WINDOW, running_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRAIN, VALIDATION = "success/train", "success/validation"
COLOURS = {"base": "#7f7f7f", "sft": "#ff7f0e", "rl": "#2ca02c"}  # grey, orange, green: apart also when printed grey
OTHER, VALIDATED = "#1f77b4", "#9467bd"
LABELS = {"base": "base", "sft": "SFT", "rl": "RL"}


def learning_curve(result: RunResult, metrics: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """Draw success while training and, beside it, each stage on the test games with its 95 % interval.

    Args:
        result: the finished run.
        metrics: one mapping an RL step with ``step`` and ``success/train`` (share of the step's episodes), some with
            ``success/validation`` and its bounds; empty where the run had no RL.
        path: the PNG to write; its folder exists.

    Returns:
        ``path``.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # a second to import, so not at start-up
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(fill(result.name, 90), fontsize=10)
    if metrics:
        curve, panel = figure.subplots(1, 2, sharey=True, width_ratios=[3, 1])
        _draw_training(curve, metrics)
        for stage in result.stages:
            colour = COLOURS.get(stage.name, OTHER)
            curve.axhline(100 * stage.interval.mean, color=colour, linestyle="--", linewidth=1)
        curve.legend(loc="upper left", fontsize=8)
    else:
        panel = figure.subplots()
        panel.set_ylabel("success (% of games)")
    _draw_axes(panel, result.stages)
    panel.set_ylim(0, _top(result.stages, metrics))
    draft = path.with_name(f".{path.name}")
    figure.savefig(draft, dpi=150, format="png")
    return draft.replace(path)


def _draw_training(axes: Axes, metrics: Sequence[Mapping[str, Any]]) -> None:
    from matplotlib.ticker import MaxNLocator

    steps, shares = _series(metrics, TRAIN)
    point = "o" if len(steps) == 1 else None  # a line of one point is not seen
    axes.plot(steps, shares, color=OTHER, alpha=0.35, linewidth=1, marker=point, label="training games, each step")
    axes.plot(steps, running_mean(shares), color=OTHER, linewidth=2, label=f"the same, mean of {WINDOW} steps")
    _draw_validation(axes, metrics)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("RL step")
    axes.set_ylabel("success (% of games)")
    axes.grid(alpha=0.25)


def _draw_validation(axes: Axes, metrics: Sequence[Mapping[str, Any]]) -> None:
    steps, shares = _series(metrics, VALIDATION)
    if not steps:
        return
    bounds = [_series(metrics, f"{VALIDATION}/{end}")[1] for end in ("low", "high")]
    bars = [[abs(share - bound) for share, bound in zip(shares, row, strict=True)] for row in bounds]
    axes.errorbar(
        steps, shares, bars, fmt="s", color=VALIDATED, markersize=4, capsize=3, label="validation games, 95 %"
    )


def _draw_axes(axes: Axes, stages: Sequence[StageResult]) -> None:
    for place, stage in enumerate(stages):
        share, low, high = (100 * value for value in (stage.interval.mean, stage.low, stage.high))
        colour = COLOURS.get(stage.name, OTHER)
        axes.errorbar(place, share, [[share - low], [high - share]], fmt="_", color=colour, capsize=5, markersize=18)
        axes.annotate(f"{share:.1f}", (place, high), (0, 4), textcoords="offset points", ha="center", fontsize=8)
    axes.set_xticks(range(len(stages)), [LABELS.get(stage.name, stage.name) for stage in stages])
    axes.set_xlim(-0.6, len(stages) - 0.4)
    axes.grid(axis="y", alpha=0.25)
    axes.set_title(f"{stages[0].games} test games, 95 % intervals", fontsize=9)


def _top(stages: Sequence[StageResult], metrics: Sequence[Mapping[str, Any]]) -> float:
    """The upper end of the shared axis, with room for the numbers above the bars."""
    shown = [100 * stage.high for stage in stages]
    shown += _series(metrics, TRAIN)[1] + _series(metrics, f"{VALIDATION}/high")[1]
    return 1.12 * max(shown)


def _series(metrics: Sequence[Mapping[str, Any]], key: str) -> tuple[list[int], list[float]]:
    """Steps and percentages of the lines that have the key."""
    lines = [line for line in metrics if line.get(key) is not None]
    return [line["step"] for line in lines], [100 * line[key] for line in lines]
