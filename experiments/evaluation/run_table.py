"""The tables that end a run."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.table import Table

from experiments.evaluation.matrix_table import comparisons_table, matrix_tables
from experiments.evaluation.result import RunResult, StageResult
from records.stages import stage_name

WIDTH = 110


def summary_table(result: RunResult) -> str:
    """Success of each stage with its interval and cost, the matrix where several evaluation sets were played, each
    stage compared with the ones before, then where everything lies, and whether RL steps had no signal; plain text."""
    table = Table(title=result.name, caption=_caption(result), title_justify="left", caption_justify="left")
    table.add_column("stage")
    for heading in ("success %", "95 % interval", "games", "turns to win", "units", "tokens", "seconds"):
        table.add_column(heading, justify="right")
    for stage in result.stages:
        table.add_row(*_row(stage))
    tables = [table, *matrix_tables(result.matrix), *comparisons_table(result.comparisons)]
    flat = result.notes.get("no_signal")
    places = f"run folder:     {result.folder}\n"  # outside the tables, so that no line break falls into a path
    places += f"learning curve: {Path(result.folder) / result.plot}\n" if result.plot else ""
    return plain_text(tables) + places + (f"no signal:      {flat}\n" if flat else "")


def plain_text(tables: list[Table], width: int = WIDTH) -> str:
    console = Console(file=StringIO(), width=width, no_color=True)
    for table in tables:
        console.print(table)
        console.print()
    return console.file.getvalue()  # type: ignore[attr-defined]


def _row(stage: StageResult) -> list[str]:
    interval = stage.interval
    turns = stage.mean_turns_to_success
    return [
        stage_name(stage.name),
        f"{100 * interval.mean:.1f}",
        f"{100 * interval.low:.1f} to {100 * interval.high:.1f}",
        str(stage.games),
        "-" if turns is None else f"{turns:.1f}",
        f"{stage.units:g}",
        f"{stage.tokens:,}",
        f"{stage.seconds:.0f}",
    ]


def _caption(result: RunResult) -> str:
    first = result.stages[0]
    times = "once" if first.samples_per_game == 1 else f"{first.samples_per_game} times"
    played = f"test games played {times} each, temperature {first.temperature:g}, at most {first.max_turns} turns"
    if first.optimal_turns:
        played += f", {first.max_turns / first.optimal_turns:.3g} x the expert plan"
    return f"{played}\n{_spent(result)}; {result.seconds:.0f} s in all"


def _spent(result: RunResult) -> str:
    """What was charged, then both ways of counting where they are known apart."""
    words = f"{result.units:g} units spent, {result.units_left:g} left"
    sums = result.notes.get("spent")
    if not sums:
        return words
    return f"{words} ({sums['units_by_games']:g} counting games, {sums['units_by_rollouts']:g} counting rollouts)"
