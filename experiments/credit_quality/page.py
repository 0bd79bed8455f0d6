"""The HTML page of the results with forest plots, and a viewer page with each method's credit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from turngrid.experiments.credit_quality.intervals import ALL, NOISE
from turngrid.experiments.credit_quality.results import Rated, Results, by_rating, shown
from turngrid.experiments.report.charts import COLOURS, GREY, render
from turngrid.experiments.viewer.page import page
from turngrid.experiments.viewer.sources import TOKENIZER, Shown
from turngrid.records.credit import Credit
from turngrid.records.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRUE = "true advantage"
NOTE = (
    "Bars and colours: the true advantage. Beside it each method's credit, both in standard deviations over all turns."
)


def html(results: Results) -> str:
    """Render the results as one HTML page."""
    loader = FileSystemLoader(str(files("turngrid.experiments.credit_quality") / "templates"))
    template = Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template("page.html.j2")
    names = by_rating(results)
    css = (files("turngrid.experiments.report") / "templates" / "style.css").read_text(encoding="utf-8")
    parts = {"plot": Markup(forest(results, names)), "style": Markup(css), "summary": summary(results)}
    return template.render(r=results, methods=names, measures=list(results.methods), shown=shown, **parts)


def summary(results: Results) -> str:
    about, truth = results.about, results.truth
    critic = ""
    if "critic" in about:
        explained = f"{about['critic_explains']:.0%} of the variance of what was played on"
        critic = f" The critic, {about['critic']}, explains {explained}."
    return (
        f"{about['tasks']} games with {about['samples']} episodes each ({about['won']:.0%} won), "
        f"{about['turns']} turns, {about['k']} continuations of each of {about['prefixes']} prefixes. "
        f"Reliability of the true advantages {shown(truth['reliability'])}; "
        f"the best that credit constant in an episode can reach: {shown(truth['ceiling'])}.{critic}"
    )


def forest(results: Results, names: list[str]) -> str:
    """Draw one column per measure, with the methods in the same rows."""

    def draw(figure: Figure) -> None:
        columns = figure.subplots(1, len(results.methods), sharey=True)
        for axes, (measure, rated) in zip(columns, results.methods.items(), strict=True):
            _measure(axes, measure, [rated[name] for name in names])
        columns[0].set_yticks(range(len(names)), names)
        columns[0].invert_yaxis()

    size = 2.1 * len(results.methods), 1.2 + 0.3 * len(names)
    return render("forest", "Methods against the true advantages", size, draw)


def _measure(axes: Axes, measure: str, intervals: Sequence[Interval]) -> None:
    for y, interval in enumerate(intervals):
        if math.isfinite(interval.low):
            axes.plot([interval.low, interval.high], [y, y], color=COLOURS[0], linewidth=4, alpha=0.35)
        if math.isfinite(interval.mean):
            axes.plot([interval.mean], [y], "o", color=COLOURS[0], markersize=5)
    axes.axvline(NOISE[measure], color=GREY, linewidth=1, linestyle=":")
    axes.set_title(fill(ALL[measure], 22), fontsize=8)
    axes.grid(visible=False, axis="y")


def episodes_page(rated: Rated, reward: str, model: str) -> str:
    """Return the viewer's page. ``model``: the policy's model folder, or "" if it is no model."""
    about = rated.results.about
    return page(
        _measured(rated, reward, model), f"{about['env']} {about['task']}, {about['policy']}: credit", note=NOTE
    )


def _measured(rated: Rated, reward: str, model: str) -> Iterator[Shown]:
    columns = {TRUE: rated.truth.advantage, **rated.credits}
    scaled = {name: column / (np.sqrt(np.mean(column**2)) or 1) for name, column in columns.items()}
    tokenizer, first = Path(model), 0
    for number, group in enumerate(rated.groups):
        for episode in group:
            end = first + len(episode.turns)
            lengths = [len(turn.action_ids) - episode.muted(turn) for turn in episode.turns]
            truth = np.repeat(rated.truth.advantage[first:end], lengths).tolist()
            yield Shown(
                episode,
                stage="credit quality",
                place=f"{number}:{episode.sample}",
                credit=Credit(truth, []),
                tokenizer=tokenizer if (tokenizer / TOKENIZER).exists() else None,
                reward=reward,
                compared={name: column[first:end].round(2).tolist() for name, column in scaled.items()},
            )
            first = end
