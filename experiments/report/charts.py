"""The charts of a report as inline SVG, each with axes and units; the page gives them their titles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.report.methods import THRESHOLDS, Reliability
from experiments.report.series import Series, Subplot
from experiments.report.svg import INK, SERIES, figure, inline, style
from records.statistics import WINDOW, Interval, running_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ACROSS = 3  # subplots side by side
WIDE, HALF = 9.6, 5.2  # inches: as wide as the page, and half of that
DASHES = ("-", "--", ":")  # once all colours are used


@dataclass(frozen=True)
class Chart:
    """``note`` is what stands under it."""

    name: str
    title: str
    svg: str
    note: str = ""


def _look(place: int) -> dict[str, Any]:
    return {"color": SERIES[place % len(SERIES)], "linestyle": DASHES[place // len(SERIES) % len(DASHES)]}


def curves(subplots: Sequence[Subplot], by: str) -> str:
    """Success while training. ``by``: ``steps`` or ``episodes`` on the horizontal axis."""
    name = f"curves-{by}"
    across = min(ACROSS, len(subplots))
    down = -(-len(subplots) // across)
    names = list(dict.fromkeys(series.name for subplot in subplots for series in subplot.series))
    title = f"success on training episodes by {by}"
    with style(name):
        made = figure(WIDE if across > 1 else 7.6, 0.6 + 3.1 * down, name)
        grid = made.subplots(down, across, squeeze=False, sharey=True)
        for place, (axes, subplot) in enumerate(zip(grid.flat, subplots, strict=False)):
            _subplot(axes, subplot, by, names)
            axes.set_ylabel("" if place % across else "success, % of the step's episodes")
        for axes in list(grid.flat)[len(subplots) :]:
            axes.set_visible(False)
        if len(names) > 1:
            _legend(made, grid, names)
        return inline(made, title)


def _legend(made: Figure, grid: np.ndarray, names: Sequence[str]) -> None:
    """One entry a setting; the raw curves behind have no name."""
    handles = {line.get_label(): line for axes in grid.flat for line in axes.get_lines() if line.get_label() in names}
    made.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(4, len(names)))


def _subplot(axes: Axes, subplot: Subplot, by: str, names: Sequence[str]) -> None:
    from matplotlib.ticker import MaxNLocator

    for series in subplot.series:
        across = series.steps if by == "steps" else series.episodes
        _line(axes, across, series, _look(names.index(series.name)), 100)
    axes.set_title(subplot.title)
    axes.set_xlabel("RL step" if by == "steps" else "training episodes")
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.margins(x=0.01)
    axes.grid(alpha=1, linewidth=0.7)


def _line(axes: Axes, across: np.ndarray, series: Series, look: Mapping[str, Any], scale: float = 1) -> None:
    """Smoothed, with the steps themselves behind, where there are enough of them; a point where there is one step alone."""
    lines = [scale * line for line in (series.mean, series.low, series.high)]
    if smooth := len(across) > WINDOW:
        axes.plot(across, lines[0], alpha=0.35, linewidth=0.9, **look)
    mean, low, high = (running_mean(line) for line in lines) if smooth else lines
    axes.plot(across, mean, label=series.name, marker="o" if len(across) == 1 else None, **look)
    if series.seeds > 1:
        axes.fill_between(across, low, high, color=look["color"], alpha=0.16, linewidth=0)


def training(found: Sequence[Subplot]) -> str:
    """What else was measured while training, a small chart each."""
    from matplotlib.ticker import MaxNLocator

    names = list(dict.fromkeys(series.name for subplot in found for series in subplot.series))
    down = -(-len(found) // ACROSS)
    with style("training"):
        made = figure(WIDE, 0.5 + 1.9 * down, "training")
        grid = made.subplots(down, ACROSS, squeeze=False)
        for axes in list(grid.flat)[len(found) :]:
            axes.set_visible(False)
        for axes, subplot in zip(grid.flat, found, strict=False):
            for series in subplot.series:
                _line(axes, series.steps, series, _look(names.index(series.name)))
            axes.set_title(subplot.title)
            axes.set_ylabel(subplot.unit)
            axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            axes.yaxis.set_major_locator(MaxNLocator(4))
            axes.grid(alpha=1, linewidth=0.7)
        for axes in list(grid.flat)[max(0, len(found) - ACROSS) : len(found)]:
            axes.set_xlabel("RL step")
        if len(names) > 1:
            _legend(made, grid, names)
        return inline(made, "what training measured besides success")


def heat_map(rows: Sequence[str], columns: Sequence[str], values: np.ndarray) -> str:
    """``values``: shape (rows, columns), in [0, 1], NaN where nothing is known. 0 has the page's own colour."""
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("from paper", [(SERIES[0], 0.0), (SERIES[0], 0.75)])
    with style("heat"):
        made = figure(min(WIDE, 3.4 + 1.25 * len(columns)), 1.5 + 0.42 * len(rows), "heat")
        axes = made.subplots()
        top = max(1.0, 100 * float(np.nanmax(values)))
        mesh = axes.pcolormesh(100 * values[::-1], cmap=shades, vmin=0, vmax=top)
        for (row, column), value in np.ndenumerate(values[::-1]):
            if not np.isnan(value):
                axes.text(column + 0.5, row + 0.5, f"{100 * value:.1f}", ha="center", va="center", color=INK)
        axes.set_xticks(np.arange(len(columns)) + 0.5, columns, rotation=0 if len(columns) < 6 else 25)
        axes.set_yticks(np.arange(len(rows)) + 0.5, rows[::-1])
        axes.set_xlabel("tested on")
        axes.set_ylabel("setting")
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        made.colorbar(mesh, ax=axes, label="success, % of games").outline.set_visible(False)
        return inline(made, "success of each setting on each evaluation set")


def whiskers(name: str, found: Mapping[str, Interval], label: str, middle: float | None = None) -> str:
    """Points with intervals, one below the other; ``middle`` (in percent) is where a line marks "no difference"."""
    with style(name):
        made = figure(HALF, 1.0 + 0.32 * len(found), name)
        axes = made.subplots()
        for place, interval in enumerate(reversed(list(found.values()))):
            mean, low, high = (100 * value for value in (interval.mean, interval.low, interval.high))
            axes.plot([low, high], [place, place], color=SERIES[0], linewidth=5, alpha=0.35, solid_capstyle="butt")
            axes.plot([mean], [place], "o", color=SERIES[0], markersize=7)
        if middle is not None:
            axes.axvline(middle, color=INK, linewidth=1, linestyle=":")
            axes.set_xlim(-2, 102)
        else:
            axes.set_xlim(left=0)
        axes.set_yticks(range(len(found)), list(found)[::-1])
        axes.set_ylim(-0.6, len(found) - 0.4)
        axes.set_xlabel(label)
        axes.grid(axis="x", linewidth=0.7)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        return inline(made, label)


def profiles(found: Reliability) -> str:
    """Share of runs above each success rate."""
    with style("profiles"):
        made = figure(HALF, 3.3, "profiles")
        axes = made.subplots()
        for place, (name, intervals) in enumerate(found.profiles.items()):
            look = _look(place)
            bounds = np.array([[100 * i.mean, 100 * i.low, 100 * i.high] for i in intervals]).T
            axes.plot(100 * THRESHOLDS, bounds[0], label=name, drawstyle="steps-post", **look)
            axes.fill_between(
                100 * THRESHOLDS, bounds[1], bounds[2], step="post", color=look["color"], alpha=0.14, linewidth=0
            )
        axes.set_xlabel("success rate τ, % of games")
        axes.set_ylabel("runs with more than τ, %")
        reach = max(float(method.scores.max()) for method in found.methods)
        axes.set_xlim(0, 100 * min(1.0, reach + 0.05))
        axes.set_ylim(0, 103)
        axes.grid(linewidth=0.7)
        if len(found.profiles) > 1:
            made.legend(loc="outside lower center", ncols=3)
        return inline(made, "performance profiles")
