"""Render a report as one HTML page that needs no network, and as Markdown."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from turngrid.experiments.evaluation.stage import episodes_file
from turngrid.experiments.evaluation.tables import p_value
from turngrid.experiments.report.comparisons import Word
from turngrid.experiments.report.contents import Contents
from turngrid.experiments.report.runs import LAST, Run
from turngrid.experiments.report.samples import BASE, read
from turngrid.experiments.viewer.page import fragment
from turngrid.experiments.viewer.sources import Shown
from turngrid.experiments.viewer.tokenizer import tokenizer_of
from turngrid.rollouts.episode import Episode

SIGNS = {Word.HOLDS: "✓", Word.DOES_NOT_HOLD: "✗", Word.NOT_ENOUGH: "?"}
TEMPLATES = str(files("turngrid.experiments.report") / "templates")
VIEWER_NOTE = "A sample: the first wins and losses of each run's last model, and of one base model, on the test games."

EACH = 2  # wins and 2 losses per model
MOST = 200  # episodes in total, about 2 MB of HTML
VIEWER = "trajectories.html"  # a run's own viewer page, as docs/viewer.md makes it


def html(contents: Contents, folder: Path) -> str:
    """Return the page; links to run folders are relative to its own ``folder``."""
    episodes = sampled(contents.runs)
    viewer = fragment(episodes, note=VIEWER_NOTE) if episodes else ""
    return _render("page.html.j2", contents, folder, viewer=Markup(viewer), episodes=len(episodes))


def markdown(contents: Contents, folder: Path) -> str:
    """Return the report without charts and episodes."""
    return _render("report.md.j2", contents, folder)


def _render(template: str, contents: Contents, folder: Path, **more: Any) -> str:
    tools: dict[str, Callable[..., Any]] = {
        "percent": percent,
        "x": lambda share: f"{5 + 160 * share:.1f}",
        "points": points,
        "p_value": p_value,
        "number": number,
        "duration": duration,
        "cell": cell,
        "link": lambda run: link(run.folder, folder),
        "viewer_link": lambda run: link(run.folder / VIEWER, folder),
        "sign": lambda word: SIGNS[word],
    }
    return environment(template.endswith(".html.j2")).get_template(template).render(r=contents, **tools, **more)


@cache
def environment(escaped: bool) -> Environment:
    """Return the Jinja environment; in HTML, all text from runs and models is escaped."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=escaped,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def percent(share: float) -> str:
    """Return ``51.3`` for 0.513."""
    return f"{100 * share:.1f}"


def points(share: float) -> str:
    """Return ``+12.3`` for a difference of 0.123, with a true minus sign."""
    return f"{100 * share:+.1f}".replace("-", "−")


def number(value: float) -> str:
    """Return ``136,458``, or ``12.5`` if a fraction below 100 has one."""
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:,.1f}"


def duration(seconds: float) -> str:
    """Return ``4 min 56 s`` or ``2 h 05 min``."""
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def cell(text: object) -> str:
    """Escape text inside a Markdown table."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


def link(path: Path, folder: Path) -> str:
    """Return the path relative to the report's folder, or "" if it is missing."""
    return Path(os.path.relpath(path, folder)).as_posix() if path.exists() else ""


def sampled(runs: Sequence[Run]) -> list[Shown]:
    """Return the first wins and losses of each run's last model, by seed, then those of a base
    model.

    They are from the run's first evaluation set, at most ``MOST`` in total.
    """
    finished = sorted((run for run in runs if run.result), key=lambda run: run.seed)
    asked = [(run, run.stage(LAST)) for run in finished] + [(run, BASE) for run in finished[:1]]
    return [shown for run, stage in asked[: MOST // (2 * EACH)] for shown in _of(run, str(stage))]


def _of(run: Run, stage: str) -> Iterator[Shown]:
    path = episodes_file(run.folder, stage)
    lines = path.read_bytes().splitlines() if path.exists() else []
    won = [line.outcome == "won" for line in read(path)]
    by_outcome = [[index for index, outcome in enumerate(won) if outcome is asked][:EACH] for asked in (True, False)]
    tokenizer = tokenizer_of(run.folder, stage) if lines else None
    for index in sorted(itertools.chain(*by_outcome)):
        place = f"{path.relative_to(run.folder).as_posix()}:{index}"
        episode = Episode.from_dict(json.loads(lines[index]))
        yield Shown(episode, run.name, f"evaluation/{stage}", place, None, tokenizer)
