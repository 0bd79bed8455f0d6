"""The table that ends a run."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.table import Table

from experiments.result import RunResult, StageResult

WIDTH = 110
NAMES = {"base": "base model", "sft": "after SFT", "rl": "after RL"}


def closing_table(result: RunResult) -> str:
    """Success of each stage with its interval and cost, then where everything lies; plain text."""
    table = Table(title=result.name, caption=_caption(result), title_justify="left", caption_justify="left")
    table.add_column("stage")
    for heading in ("success %", "95 % interval", "games", "turns to win", "units", "tokens", "seconds"):
        table.add_column(heading, justify="right")
    for stage in result.stages:
        table.add_row(*_row(stage))
    console = Console(file=StringIO(), width=WIDTH, no_color=True)
    console.print(table)
    return f"{console.file.getvalue()}{_places(result)}"  # type: ignore[attr-defined]


def _row(stage: StageResult) -> list[str]:
    interval = stage.interval
    turns = stage.mean_turns_to_success
    return [
        NAMES.get(stage.name, stage.name),
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
    played = f"test games played once each, temperature {first.temperature:g}, at most {first.max_turns} turns"
    return f"{played}\n{result.units:g} units spent, {result.units_left:g} left; {result.seconds:.0f} s in all"


def _places(result: RunResult) -> str:
    """Outside the table, so that no line break falls into a path."""
    places = f"run folder:     {result.folder}\n"
    return places + (f"learning curve: {Path(result.folder) / result.plot}\n" if result.plot else "")
