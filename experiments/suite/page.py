"""The suite's page: two tables, as HTML and as text."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from rich.table import Table

from turngrid.experiments.evaluation.tables import filled, plain_text
from turngrid.experiments.report.contents import TEMPLATES as REPORT
from turngrid.experiments.suite.measures import BASE, SAMPLES, Row, Success

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
    columns: dict[str, Callable[[Row], str]] = {"environment": lambda row: f"{row.env} {row.task}"}
    for name in ("expert", "random", *suite.trainings):
        head = name if name in SAMPLES else heading(name)
        columns[head] = lambda row, name=name: _cell({**row.scripted, **row.trained}.get(name))
    columns["demonstrations for a win"] = lambda row: row.first_win or "-"
    return filled("success %, 95 % interval, games (x samples)", columns, suite.rows)


def _about(suite: Suite) -> Table:
    columns: dict[str, Callable[[Row], str]] = {
        "environment": lambda row: f"{row.env} {row.task}",
        "steps/s": lambda row: f"{row.steps_per_second:,.0f}",
        "repeated states %": lambda row: f"{100 * row.repeated:.0f}",
        "expert's turns": lambda row: "{:.1f} ({} to {})".format(*row.optimal),
        "turns at most": lambda row: str(row.max_turns),
        "tokens an episode": lambda row: f"{row.tokens:,.0f}",
    }
    return filled("what the environments are like", columns, suite.rows)


def _cell(success: Success | None) -> str:
    if success is None:
        return "-"
    mean, low, high = (f"{100 * share:.0f}" for share in (success.interval.mean, success.low, success.high))
    return f"{mean} [{low}, {high}]\n{success.games}{f' x {success.samples}' * (success.samples > 1)}"
