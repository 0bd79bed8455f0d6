"""Curves over training: success, and what else the trainer measured, as SVG from matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from io import StringIO
from typing import TYPE_CHECKING, Any

import pandas as pd

from turngrid.experiments.report.runs import EPISODES, SUCCESS, ReportedRun, drawn, group_by, grouped, task_axes
from turngrid.records.statistics import WINDOW

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ACROSS = 3  # panels side by side
MOST_LINES = 8  # in a panel of metrics: as many as there are colours
COLOURS = ("#3a86c8", "#d1611b", "#2f9e5f", "#a855b5", "#b08a00", "#0a9aa5", "#d0486e", "#7a8490")
STYLE = str(files("turngrid.experiments.report") / "templates" / "charts.mplstyle")


@dataclass(frozen=True)
class Panel:
    """One small chart: setting -> what ``over_seeds`` returns."""

    title: str
    unit: str
    lines: Mapping[str, pd.DataFrame]


def over_seeds(runs: Sequence[ReportedRun], metric: str = SUCCESS) -> pd.DataFrame:
    """Aggregate a metric over ``runs``; if any are finished, over these only.

    Returns:
        One row per common step, with ``mean``, ``low``, ``high``, ``episodes`` so far, and whether
        a run has an ``alarm`` there: one of this metric, or any for success.
    """
    chosen = [run for run in runs if run.result] or list(runs)
    values = pd.concat([run.curve[metric].dropna() for run in chosen], axis=1, join="inner").sort_index()
    summary = values.agg(["mean", "min", "max"], axis=1).set_axis(["mean", "low", "high"], axis=1)
    raised = {alarm.step for run in chosen for alarm in run.alarms if metric in (alarm.metric, SUCCESS)}
    return summary.assign(
        episodes=chosen[0].curve[EPISODES].reindex(values.index), alarm=[step in raised for step in values.index]
    )


def curves(runs: Sequence[ReportedRun]) -> dict[str, str]:
    """Draw success by ``steps`` and by training ``episodes``, with a panel for each task."""
    trained = [run for run in runs if len(run.curve)]
    if not trained:
        return {}
    axes = task_axes([run for run in trained if run.result])
    tasks = group_by(trained, lambda run: " ".join(value for axis, value in run.coordinates.items() if axis in axes))
    unit = "success, % of the step's episodes"
    panels = [
        Panel(task, unit, {name: over_seeds(of) for name, of in grouped(group, axes, "success").items()})
        for task, group in tasks.items()
    ]
    return {
        "steps": draw_panels("curves-steps", panels),
        "episodes": draw_panels("curves-episodes", panels, "episodes"),
    }


def metric_panels(runs: Sequence[ReportedRun]) -> list[Panel]:
    """Return a panel for each metric of ``SHOWN`` that is not 0 throughout.

    There is none if there are more settings than colours.
    """
    settings = grouped([run for run in runs if len(run.curve)], nameless="run")
    panels = []
    for name, title, unit in drawn(runs) if len(settings) <= MOST_LINES else ():
        have = {setting: [run for run in group if name in run.curve] for setting, group in settings.items()}
        lines = {setting: over_seeds(group, name) for setting, group in have.items() if group}
        if any(line["mean"].any() for line in lines.values()):
            panels.append(Panel(title, unit, lines))
    return panels


def draw_panels(name: str, panels: Sequence[Panel], by: str = "") -> str:
    """Return ``<svg>`` with small charts side by side.

    Args:
        name: unique in the page; prefixes the SVG's ids.
        by: a column of the lines' data; "" for the step.
    """
    from matplotlib import rc_context

    text = StringIO()
    with rc_context({"svg.hashsalt": name}, fname=STYLE):
        figure = _figure(panels, by, success=name.startswith("curves"))
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    body, label = text.getvalue(), escape(f"{name.replace('-', ' by ')} of each setting")
    named = f'<svg class="chart" role="img" data-chart="{name}" aria-label="{label}" '
    return body[body.index("<svg") :].replace("<svg ", named, 1)


def _figure(panels: Sequence[Panel], by: str, success: bool) -> Figure:
    """Draw a chart for each panel, with one legend; charts of success share their scale."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(line for panel in panels for line in panel.lines))
    across = min(ACROSS, len(panels))
    down, width, height = -(-len(panels) // across), 9.6 if across > 1 else 7.6, 3.1 if success else 1.9
    figure = Figure(figsize=(width, 0.6 + height * down), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False, sharey=success)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, panel in zip(grid.flat, panels, strict=False):
        for setting, line in panel.lines.items():
            _line(axes, setting, line, names.index(setting), by, 100 if success else 1)
        axes.set(title=panel.title, ylabel=panel.unit, xlabel="training episodes" if by else "RL step")
        axes.locator_params(nbins=4, integer=True, axis="x")
        if success:
            axes.set_ylim(bottom=0)
            axes.label_outer()
    if len(names) > 1:
        entries = [zip(*axes.get_legend_handles_labels(), strict=True) for axes in grid.flat]
        handles = {label: handle for pairs in entries for handle, label in pairs}
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(4, len(handles)))
    return figure


def _line(axes: Axes, name: str, line: pd.DataFrame, index: int, by: str, scale: float) -> None:
    """Draw a line with the range of its seeds as a band; a point if there is only one step.

    With more than ``WINDOW`` steps the line is smoothed, and the unsmoothed one is drawn thin.
    """
    look: dict[str, Any] = {"color": COLOURS[index % len(COLOURS)], "linestyle": ("-", "--", ":")[index // 8 % 3]}
    data = scale * line[["mean", "low", "high"]]
    across = line[by] if by else line.index
    if len(data) > WINDOW:
        axes.plot(across, data["mean"], alpha=0.35, linewidth=0.9, **look)
        data = data.rolling(WINDOW, min_periods=1).mean()
    axes.plot(across, data["mean"], label=name, marker="o" if len(data) == 1 else None, **look)
    if (raised := line["alarm"]).any():
        axes.plot(across[raised], data["mean"][raised], marker="v", color=look["color"], linestyle="none")
    if (data["low"] < data["high"]).any():
        axes.fill_between(across, data["low"], data["high"], color=look["color"], alpha=0.16, linewidth=0)
