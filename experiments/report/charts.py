"""The report's charts as SVG from matplotlib.

Matplotlib's SVG gives black text no colour attribute, so the page's style sheet colours it for
light and dark mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from turngrid.experiments.report.curves import Line, Panel, equal_lines, metric_panels, success_panels
from turngrid.experiments.report.reliability import THRESHOLDS, Reliability
from turngrid.experiments.report.runs import LAST, Run, grouped
from turngrid.experiments.report.samples import BASE
from turngrid.records.statistics import WINDOW, Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ACROSS = 3  # panels side by side
WIDE, HALF = 9.6, 5.2  # inches: as wide as the page, and half of that
COLOURS = ("#3a86c8", "#d1611b", "#2f9e5f", "#a855b5", "#b08a00", "#0a9aa5", "#d0486e", "#7a8490")
GREY = "#8a939d"
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.size": 10,
    "axes.edgecolor": GREY,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "grid.color": GREY,
    "grid.alpha": 0.3,
    "figure.facecolor": "none",
    "xtick.color": GREY,
    "xtick.labelcolor": "black",
    "ytick.color": GREY,
    "ytick.labelcolor": "black",
    "legend.frameon": False,
    "lines.linewidth": 1.8,
}
FEW = 4  # scores: an interquartile mean needs at least this many


@dataclass(frozen=True)
class Chart:
    """``note`` is the caption below the chart."""

    name: str
    title: str
    svg: str
    note: str = ""


def charts(runs: Sequence[Run], statistics: Reliability | None) -> Mapping[str, Sequence[Chart]]:
    """Return the charts by section of the page; a section without charts is empty."""
    return {
        "curves": _curves(runs),
        "training": _training(runs),
        "heat": _heat(runs),
        "reliability": _reliability(statistics) if statistics else [],
    }


def render(name: str, title: str, size: tuple[float, float], draw: Callable[[Figure], None]) -> str:
    """Return ``<svg>`` of a figure that ``draw`` fills.

    Args:
        name: unique in the page; prefixes the SVG's ids.
        title: text for screen readers.
        size: width and height in inches.
        draw: fills an empty figure.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    text = StringIO()
    with rc_context({**STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    body = text.getvalue()
    named = f'<svg class="chart" role="img" data-chart="{name}" aria-label="{escape(title)}" '
    return body[body.index("<svg") :].replace("<svg ", named, 1)


def draw_panels(name: str, title: str, panels: Sequence[Panel], by: str = "RL step") -> str:
    """Draw small charts side by side, with ``RL step`` or ``episodes`` on the x axis."""
    names = list(dict.fromkeys(line for panel in panels for line in panel.lines))
    across = min(ACROSS, len(panels))
    down = -(-len(panels) // across)
    success = name.startswith("curves")

    def draw(figure: Figure) -> None:
        grid = figure.subplots(down, across, squeeze=False, sharey=success)
        for axes in list(grid.flat)[len(panels) :]:
            axes.set_visible(False)
        for index, (axes, panel) in enumerate(zip(grid.flat, panels, strict=False)):
            _panel(axes, panel, names, by, 100 if success else 1)
            if success:
                axes.set_ylim(bottom=0)
                axes.set_ylabel("" if index % across else panel.unit)
        if len(names) > 1:
            _legend(figure, grid)

    height = 3.1 if success else 1.9
    return render(name, title, (WIDE if across > 1 else 7.6, 0.6 + height * down), draw)


def _panel(axes: Axes, panel: Panel, names: Sequence[str], by: str, scale: float) -> None:
    from matplotlib.ticker import MaxNLocator

    for name, line in panel.lines.items():
        _line(axes, name, line, names.index(name), by, scale)
    axes.set(title=panel.title, ylabel=panel.unit, xlabel="training episodes" if by == "episodes" else by)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(5))


def _line(axes: Axes, name: str, line: Line, index: int, by: str, scale: float) -> None:
    """Draw a line with the range of its seeds as a band; a point if there is only one step.

    With more than ``WINDOW`` steps the line is smoothed, and the unsmoothed one is drawn thin.
    """
    look: dict[str, Any] = {"color": COLOURS[index % len(COLOURS)], "linestyle": ("-", "--", ":")[index // 8 % 3]}
    data = scale * line.data[["mean", "low", "high"]]
    across = line.data["episodes"] if by == "episodes" else line.data.index
    if len(data) > WINDOW:
        axes.plot(across, data["mean"], alpha=0.35, linewidth=0.9, **look)
        data = data.rolling(WINDOW, min_periods=1).mean()
    axes.plot(across, data["mean"], label=name, marker="o" if len(data) == 1 else None, **look)
    if line.seeds > 1:
        axes.fill_between(across, data["low"], data["high"], color=look["color"], alpha=0.16, linewidth=0)


def _legend(figure: Figure, grid: np.ndarray) -> None:
    entries = [axes.get_legend_handles_labels() for axes in grid.flat]
    handles = {label: handle for lines, labels in entries for handle, label in zip(lines, labels, strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(4, len(handles)))


def _training(runs: Sequence[Run]) -> list[Chart]:
    panels = metric_panels(runs)
    note = "docs/tracking.md explains each metric. Metrics that no run has or that are 0 throughout are left out."
    svg = draw_panels("training", "what training measured besides success", panels) if panels else ""
    return [Chart("training", "While training", svg, note)] if panels else []


def _curves(runs: Sequence[Run]) -> list[Chart]:
    panels = success_panels(runs)
    lines = [line for panel in panels for line in panel.lines.values()]
    counted = all(line.data["episodes"].iloc[-1:].gt(0).all() for line in lines)
    ways = {"steps": "RL step", **({"episodes": "episodes"} if counted else {})} if panels else {}
    return [
        Chart(
            f"curves-{name}",
            f"Learning curves by {name}",
            draw_panels(f"curves-{name}", f"success on training episodes by {name}", panels, by),
            _curves_note(runs, panels, lines),
        )
        for name, by in ways.items()
    ]


def _curves_note(runs: Sequence[Run], panels: Sequence[Panel], lines: Sequence[Line]) -> str:
    notes = ["Success of the policy while it trains, on training games, at the training temperature: not the test."]
    if any(len(line.data) > WINDOW for line in lines):
        notes.append(f"Thick: mean of the last {WINDOW} steps; thin: each step.")
    if any(line.seeds > 1 for line in lines):
        notes.append("Line: mean over seeds; band: from the lowest to the highest seed.")
    if not all(run.result for run in runs if len(run.curve)):
        notes.append("Runs without a result are drawn only if no run of the setting has one.")
    if same := equal_lines(panels):
        notes.append(f"Equal in every step, so that one line covers the others: {'; '.join(same)}.")
    return " ".join(notes)


def _heat(runs: Sequence[Run]) -> list[Chart]:
    finished = [run for run in runs if run.result]
    if not any(len(run.evaluation_sets) > 1 for run in finished):
        return []
    groups = {"base model": (BASE, finished)} | {
        name: (LAST, group) for name, group in grouped(finished, nameless="last model").items()
    }
    rows = [
        (name, f"{one.env}/{one.task}", one.interval.mean)
        for name, (stage, group) in groups.items()
        for run in group
        for one in run.stage_evaluations(stage)
    ]
    frame = pd.DataFrame(rows, columns=["setting", "set", "success"])
    table = frame.pivot_table(index="setting", columns="set", values="success", sort=False)
    if len({name.split("/")[0] for name in table}) == 1:
        table.columns = [name.split("/", 1)[1] for name in table]
    note = "Last model of each setting, mean over seeds; the table has the intervals."
    return [Chart("heat", "Generalisation: success on every evaluation set", heat_map(table), note)]


def heat_map(table: pd.DataFrame) -> str:
    """Draw success in [0, 1] by setting and evaluation set; NaN stays empty."""
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("from paper", [(COLOURS[0], 0.0), (COLOURS[0], 0.75)])
    values = 100 * table.to_numpy()

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.grid(visible=False)
        mesh = axes.pcolormesh(values, cmap=shades, vmin=0, vmax=max(1.0, float(np.nanmax(values))))
        for (row, column), value in np.ndenumerate(values):
            axes.text(column + 0.5, row + 0.5, "" if np.isnan(value) else f"{value:.1f}", ha="center", va="center")
        axes.set_xticks(np.arange(table.shape[1]) + 0.5, table.columns, rotation=0 if table.shape[1] < 6 else 25)
        axes.set_yticks(np.arange(len(table)) + 0.5, table.index)
        axes.invert_yaxis()
        axes.set(xlabel="tested on", ylabel="setting")
        figure.colorbar(mesh, ax=axes, label="success, % of games").outline.set_visible(False)

    size = min(WIDE, 3.4 + 1.25 * table.shape[1]), 1.5 + 0.42 * len(table)
    return render("heat", "success of each setting on each evaluation set", size, draw)


def _reliability(stats: Reliability) -> list[Chart]:
    seeds = sorted({len(table) for table in stats.scores.values()})
    size = f"{' or '.join(map(str, seeds))} seeds on {len(stats.tasks)} task{'s' * (len(stats.tasks) != 1)} a method"
    few = min(table.size for table in stats.scores.values()) < FEW
    plain = " With so few scores no quarter can be dropped, so this is the plain mean." if few else ""
    made = [
        Chart("iqm", "Interquartile mean", whiskers("iqm", stats.iqm, "success, % of games"), f"{size}.{plain}"),
        Chart("profiles", "Performance profiles", profiles(stats), f"{size}; bands are 95 % intervals."),
    ]
    if stats.improvements:
        pairs = {" > ".join(pair): interval for pair, interval in stats.improvements.items()}
        svg = whiskers("improvement", pairs, "probability that the first does better, %", middle=50)
        note = "That a run of the first beats one of the second; 50 %: no difference. A tie counts half."
        made.append(Chart("improvement", "Probability of improvement", svg, note))
    return made


def whiskers(name: str, intervals: Mapping[str, Interval], label: str, middle: float | None = None) -> str:
    """Draw points with intervals; ``middle`` (in percent) marks "no difference"."""
    mean, low, high = (100 * np.array([getattr(one, part) for one in intervals.values()]) for part in PARTS)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        errors = np.clip([mean - low, high - mean], 0, None)
        axes.errorbar(mean, list(intervals), xerr=errors, fmt="o", color=COLOURS[0], capsize=3)
        axes.set(xlabel=label, xlim=(0, None) if middle is None else (-2, 102), ylim=(len(mean) - 0.4, -0.6))
        if middle is not None:
            axes.axvline(middle, color=GREY, linestyle=":")

    return render(name, label, (HALF, 1.0 + 0.32 * len(intervals)), draw)


PARTS = ("mean", "low", "high")


def profiles(statistics: Reliability) -> str:
    """Draw the share of runs above each success rate."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for index, (name, intervals) in enumerate(statistics.profiles.items()):
            mean, low, high = (100 * np.array([getattr(one, part) for one in intervals]) for part in PARTS)
            colour = COLOURS[index % len(COLOURS)]
            axes.plot(100 * THRESHOLDS, mean, label=name, drawstyle="steps-post", color=colour)
            axes.fill_between(100 * THRESHOLDS, low, high, step="post", color=colour, alpha=0.14, linewidth=0)
        reach = max(float(table.to_numpy().max()) for table in statistics.scores.values())
        axes.set(xlabel="success rate τ, % of games", ylabel="runs with more than τ, %")
        axes.set(xlim=(0, 100 * min(1.0, reach + 0.05)), ylim=(0, 103))
        if len(statistics.profiles) > 1:
            figure.legend(loc="outside lower center", ncols=3)

    return render("profiles", "performance profiles", (HALF, 3.3), draw)
