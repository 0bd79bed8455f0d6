"""Learning curves as data frames, and which lines share a panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from turngrid.experiments.report.runs import EPISODES, SHOWN, SUCCESS, Run, apart, family, grouped, task_axes, title_of

MOST_LINES = 8  # in one panel
MOST_PANELS = 9
_ORDER = list(SHOWN)


@dataclass(frozen=True)
class Line:
    """One metric of one setting.

    Attributes:
        seeds: number of runs behind each point.
        data: one row per step that all of these runs have, with ``mean``, ``low``, ``high`` and
            ``episodes`` so far.
    """

    seeds: int
    data: pd.DataFrame


@dataclass(frozen=True)
class Panel:
    """One small chart: setting -> line."""

    title: str
    unit: str
    lines: Mapping[str, Line]


def over_seeds(runs: Sequence[Run], metric: str = SUCCESS) -> Line:
    """Aggregate a metric over ``runs``; if any are finished, over these only."""
    chosen = [run for run in runs if run.result] or list(runs)
    values = pd.concat([run.curve[metric].dropna() for run in chosen], axis=1, join="inner").sort_index()
    summary = {"mean": values.mean(axis=1), "low": values.min(axis=1), "high": values.max(axis=1)}
    return Line(len(chosen), pd.DataFrame({**summary, "episodes": chosen[0].curve[EPISODES].reindex(values.index)}))


def success_panels(runs: Sequence[Run]) -> list[Panel]:
    """Split success into panels by task, or by the axis that leaves the fewest lines in a panel."""
    trained = [run for run in runs if len(run.curve)]
    axes = _split(trained)
    groups = apart(trained, lambda run: " ".join(value for axis, value in run.coordinates.items() if axis in axes))
    unit = "success, % of the step's episodes"
    return [
        Panel(name, unit, {line: over_seeds(of) for line, of in grouped(group, axes, "success").items()})
        for name, group in groups.items()
    ]


def _split(runs: Sequence[Run]) -> list[str]:
    tasks = task_axes([run for run in runs if run.result])
    if tasks and _count(runs, tasks) <= MOST_PANELS:
        return tasks
    if len({tuple(run.coordinates.items()) for run in runs}) <= MOST_LINES:
        return []
    names = dict.fromkeys(axis for run in runs for axis in run.coordinates)
    few = [axis for axis in names if _count(runs, [axis]) <= MOST_PANELS]
    return [max(few, key=lambda axis: _count(runs, [axis]))] if few else []


def _count(runs: Sequence[Run], axes: Sequence[str]) -> int:
    return len({tuple(run.coordinates.get(axis) for axis in axes) for run in runs})


def metric_panels(runs: Sequence[Run]) -> list[Panel]:
    """Return one panel per further metric, in the order of ``SHOWN``; leave out metrics that are 0
    throughout.

    Return nothing if there are more settings than colours.
    """
    settings = grouped([run for run in runs if len(run.curve)], nameless="run")
    names = {name for run in runs for name in run.curve if family(name)} if len(settings) <= MOST_LINES else set()
    panels = []
    for name in sorted(names, key=lambda name: (_ORDER.index(str(family(name))), name)):
        have = {setting: [run for run in group if name in run.curve] for setting, group in settings.items()}
        lines = {setting: over_seeds(group, name) for setting, group in have.items() if group}
        if any(line.data["mean"].any() for line in lines.values()):
            panels.append(Panel(*title_of(name), lines))
    return panels


def equal_lines(panels: Sequence[Panel]) -> list[str]:
    """Return names such as ``grpo, gigpo`` for settings whose means are equal at every step."""
    names_by_means: dict[tuple[object, ...], list[str]] = {}
    for panel in panels:
        for name, line in panel.lines.items():
            names_by_means.setdefault((panel.title, *line.data["mean"].items()), []).append(name)
    return [", ".join(names) for names in names_by_means.values() if len(names) > 1]
