"""The results as one HTML page that needs no network: a forest plot of every measure, and the table."""

from __future__ import annotations

import math
from importlib.resources import files

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from experiments.credit_quality.gradients import ALL, NOISE
from experiments.credit_quality.results import Results, shown
from experiments.report.svg import INK, SERIES, figure, inline, style


def html(found: Results) -> str:
    """Whatever was typed is escaped."""
    loader = FileSystemLoader(str(files("experiments.credit_quality") / "templates"))
    template = Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template("page.html.j2")
    names = by_rating(found)
    css = (files("experiments.report") / "templates" / "style.css").read_text(encoding="utf-8")
    parts = {"plot": Markup(forest(found, names)), "style": Markup(css), "summary": summary(found)}
    return template.render(r=found, methods=names, measures=list(found.methods), shown=shown, **parts)


def by_rating(found: Results) -> list[str]:
    return sorted(found.methods["r"], key=lambda name: -np.nan_to_num(found.methods["r"][name].estimate, nan=-9))


def summary(found: Results) -> str:
    about, truth = found.about, found.truth
    critic = ""
    if "critic" in about:
        critic = f" The critic, {about['critic']}, explains {about['critic_explains']:.0%} of the variance of what was played on."
    return (
        f"{about['tasks']} games with {about['samples']} episodes each ({about['won']:.0%} won), {about['turns']} turns, "
        f"{about['k']} continuations of each of {about['prefixes']} prefixes. Reliability of the true advantages "
        f"{shown(truth['reliability'])}; the best that credit constant in an episode can reach: {shown(truth['ceiling'])}.{critic}"
    )


def forest(found: Results, names: list[str]) -> str:
    """One column a measure, the methods in the same rows."""
    with style("forest"):
        made = figure(2.1 * len(found.methods), 1.2 + 0.3 * len(names), "forest")
        columns = made.subplots(1, len(found.methods), sharey=True)
        for axes, (measure, rated) in zip(columns, found.methods.items(), strict=True):
            for place, name in enumerate(reversed(names)):
                interval = rated[name]
                if math.isfinite(interval.low):
                    axes.plot([interval.low, interval.high], [place, place], color=SERIES[0], linewidth=4, alpha=0.35)
                if math.isfinite(interval.estimate):
                    axes.plot([interval.estimate], [place], "o", color=SERIES[0], markersize=5)
            axes.axvline(NOISE[measure], color=INK, linewidth=1, linestyle=":")
            axes.set_title("\n".join(_wrapped(ALL[measure])), fontsize=8)
            axes.grid(axis="x", linewidth=0.7)
            axes.tick_params(axis="y", length=0)
        columns[0].set_yticks(range(len(names)), names[::-1])
        return inline(made, "Methods against the true advantages")


def _wrapped(label: str) -> list[str]:
    from textwrap import wrap

    return wrap(label, 22)
