"""The suite's two tables."""

from collections.abc import Callable
from dataclasses import dataclass

from rich.table import Table

from turngrid.experiments.evaluation.result import Measures
from turngrid.experiments.evaluation.tables import filled, plain_text
from turngrid.experiments.suite.measures import BASE, SAMPLES, Row

WIDTH = 180


@dataclass(frozen=True)
class Suite:
    """The content of the tables."""

    rows: list[Row]
    skipped: dict[str, str]  # environment -> the line that installs what it lacks

    @property
    def trainings(self) -> list[str]:
        """Return the columns of the trained model, ``base`` first."""
        names = dict.fromkeys(name for row in self.rows for name in row.trained)
        return sorted(names, key=lambda name: (name != BASE, list(names).index(name)))


def text(suite: Suite) -> str:
    """Return the tables for a terminal."""
    lines = [f"skipped: {name}: {reason}" for name, reason in suite.skipped.items()]
    return "\n".join([plain_text([_success(suite), _about(suite)], WIDTH).rstrip(), *lines])


def _success(suite: Suite) -> Table:
    columns: dict[str, Callable[[Row], str]] = {"environment": lambda row: f"{row.env} {row.task}"}
    for name in (*SAMPLES, *suite.trainings):
        head = name if name in (*SAMPLES, BASE) else f"SFT {name}"  # "100 + RL" is SFT on 100, then RL
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


def _cell(result: Measures | None) -> str:
    if result is None:
        return "-"
    mean, low, high = (f"{100 * share:.0f}" for share in (result.interval.mean, result.low, result.high))
    samples = f" x {result.samples_per_game}" * (result.samples_per_game > 1)
    return f"{mean} [{low}, {high}]\n{result.games}{samples}"
