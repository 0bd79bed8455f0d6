"""The suite's page: two tables, as HTML and as text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from rich.table import Table

from turngrid.experiments.evaluation.tables import plain_text
from turngrid.experiments.report.contents import TEMPLATES as REPORT
from turngrid.experiments.suite.measures import BASE, Row, Success

TEMPLATES = Path(__file__).parent / "templates"
WIDTH = 180


@dataclass(frozen=True)
class Suite:
    """The content of the page. ``skipped``: environment -> the line that installs what it lacks."""

    title: str
    question: str
    note: str
    rows: list[Row]
    skipped: dict[str, str]

    @property
    def trainings(self) -> list[str]:
        """Return the columns of the trained model, ``base`` first."""
        names = dict.fromkeys(name for row in self.rows for name in row.trained)
        return sorted(names, key=lambda name: (name != BASE, list(names).index(name)))


def page(suite: Suite) -> str:
    loader = FileSystemLoader([TEMPLATES, REPORT])
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.get_template("suite.html.j2").render(suite=suite, heading=heading)


def heading(training: str) -> str:
    """Return a column's words: ``100 + RL`` is SFT on 100 demonstrations, then RL."""
    return f"SFT {training}" if training != BASE else "base"


def text(suite: Suite) -> str:
    """Return the tables for a terminal."""
    lines = [f"skipped: {name}: {reason}" for name, reason in suite.skipped.items()]
    return "\n".join([plain_text([_success(suite), _about(suite)], WIDTH).rstrip(), *lines])


def _success(suite: Suite) -> Table:
    names = ["expert", "random", *suite.trainings]
    heads = ["environment", "expert", "random", *map(heading, suite.trainings), "demonstrations to leave zero"]
    table = _table("success %, 95 % interval, games (x samples)", heads)
    for row in suite.rows:
        cells = [_cell({**row.scripted, **row.trained}.get(name)) for name in names]
        table.add_row(f"{row.env} {row.task}", *cells, row.leaves_zero or "-")
    return table


def _about(suite: Suite) -> Table:
    heads = ("environment", "steps/s", "repeated states %", "expert's turns", "turns at most", "tokens an episode")
    table = _table("what the environments are like", heads)
    for row in suite.rows:
        mean, low, high = row.optimal
        turns = f"{mean:.1f} ({low} to {high})"
        shown = (f"{row.steps_per_second:,.0f}", f"{100 * row.repeated:.0f}", turns, str(row.max_turns))
        table.add_row(f"{row.env} {row.task}", *shown, f"{row.tokens:,.0f}")
    return table


def _table(title: str, heads: tuple[str, ...] | list[str]) -> Table:
    table = Table(title=title, title_justify="left")
    for head in heads:
        table.add_column(head, justify="left" if head == heads[0] else "right", overflow="fold")
    return table


def _cell(success: Success | None) -> str:
    if success is None:
        return "-"
    shares = [f"{100 * share:.0f}" for share in (success.interval.mean, success.low, success.high)]
    several = f" x {success.samples}" if success.samples > 1 else ""
    return f"{shares[0]} [{shares[1]}, {shares[2]}]\n{success.games}{several}"
