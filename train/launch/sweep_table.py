"""``dry_run=true``: the runs of a sweep or a grid, their folders and their costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig
from rich.table import Table

from turngrid.experiments.cost_estimate.amounts import amounts
from turngrid.experiments.cost_estimate.throughput import recorded, total
from turngrid.experiments.evaluation.result import State, state
from turngrid.experiments.evaluation.tables import plain_text
from turngrid.records.run_folder import run_name
from turngrid.tasks.budget import allocate_budget
from turngrid.train.launch.sweep import Launch

WIDTH = 160
NOT_RECORDED = "no run of this kind was recorded on this machine"


@dataclass(frozen=True)
class Row:
    """A run that has not started."""

    label: str
    folder: Path
    config: DictConfig


def dry_run_table(launch: Launch) -> str:
    """Return the runs in launch order, with totals; hours are for running them one after the
    other.
    """
    rows = [
        Row(run.label, launch.output_dir / run.folder, config)
        for run, config in zip(launch.sweep.runs, launch.configs, strict=True)
    ]
    return _listed(f"{launch.sweep.title}: {launch.sweep.folder_name}", rows, f"; record: {launch.folder}")


def grid_table(runs: Sequence[tuple[str, DictConfig]]) -> str:
    """Return the same table of a grid, given labels and configs."""
    rows = [
        Row(label, Path(config.output_dir).expanduser().absolute() / run_name(config), config) for label, config in runs
    ]
    return _listed("The grid" if len(rows) > 1 else "The run", rows, f"; folders are in {rows[0].folder.parent}")


def _listed(title: str, rows: Sequence[Row], where: str) -> str:
    states = [state(row.folder) for row in rows]
    hours = [_hours(row.config) for row in rows]
    table = Table(title=title, title_justify="left")
    for column in ("run", "state", "episodes", "hours", "folder"):
        table.add_column(column, overflow="fold")
    for row, run_state, hour in zip(rows, states, hours, strict=True):
        shown = "?" if hour is None else f"{hour:.2f}"
        table.add_row(row.label, run_state, f"{_episodes(row.config):,}", shown, row.folder.name)
    return "\n".join([plain_text([table], WIDTH).rstrip(), *_totals(rows, states, hours, where)])


def _totals(rows: Sequence[Row], states: list[State], hours: list[float | None], where: str) -> list[str]:
    todo = [run_state is not State.FINISHED for run_state in states]
    known = [hour for hour, left in zip(hours, todo, strict=True) if left and hour is not None]
    unknown = sum(left for left in todo) - len(known)
    played = sum(_episodes(row.config) for row, left in zip(rows, todo, strict=True) if left)
    counted = ", ".join(f"{count} {run_state}" for run_state, count in Counter(states).items())
    lines = [f"{len(todo)} runs: {counted}", f"to play: {played:,} RL episodes{where}"]
    if known:
        lines.append(f"predicted: {sum(known):.1f} h for {len(known)} runs, one after the other, games made already")
    if unknown:
        lines.append(f"hours of {unknown} runs are not known: {NOT_RECORDED}")
    return lines


def _episodes(config: DictConfig) -> int:
    return allocate_budget(config).episodes


def _hours(config: DictConfig) -> float | None:
    """Return the hours predicted from runs recorded here, without making games; None if there are
    none.
    """
    profile = recorded(config)
    seconds = total(profile.forecast(amounts(config))) if profile else None
    return None if seconds is None else seconds / 3600
