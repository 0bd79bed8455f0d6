"""``dry_run=true``: the runs of a sweep or a grid, their folders and their costs."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig
from rich.table import Table

from turngrid.experiments.cost_estimate.amounts import amounts, forecast, recorded
from turngrid.experiments.evaluation.result import State, state
from turngrid.experiments.evaluation.tables import plain_text
from turngrid.records.run_folder import run_name
from turngrid.tasks.budget import allocate_budget

WIDTH = 160
NOT_RECORDED = "no run of this kind was recorded on this machine"


def dry_run_table(title: str, runs: Sequence[tuple[str, DictConfig]]) -> str:
    """Return the runs in launch order, with totals.

    Args:
        title: of the table.
        runs: label and config of each. Hours are for running them one after the other.
    """
    root = Path(runs[0][1].output_dir).expanduser().absolute()
    names = [run_name(config) for _, config in runs]
    states = [state(root / name) for name in names]
    hours = [_hours(config) for _, config in runs]
    episodes = [allocate_budget(config).episodes for _, config in runs]
    table = Table(title=title, title_justify="left")
    for column in ("run", "state", "episodes", "hours", "folder"):
        table.add_column(column, overflow="fold")
    for (label, _), run_state, played, hour, name in zip(runs, states, episodes, hours, names, strict=True):
        table.add_row(label, run_state, f"{played:,}", "?" if hour is None else f"{hour:.2f}", name)
    todo = [index for index, run_state in enumerate(states) if run_state is not State.FINISHED]
    known = [hour for index in todo if (hour := hours[index]) is not None]
    counted = ", ".join(f"{count} {run_state}" for run_state, count in Counter(states).items())
    lines = [f"{len(runs)} runs: {counted}"]
    lines.append(f"to play: {sum(episodes[index] for index in todo):,} RL episodes; folders are in {root}")
    if known:
        lines.append(f"predicted: {sum(known):.1f} h for {len(known)} runs, one after the other, games made already")
    if len(known) < len(todo):
        lines.append(f"hours of {len(todo) - len(known)} runs are not known: {NOT_RECORDED}")
    return "\n".join([plain_text([table], WIDTH).rstrip(), *lines])


def _hours(config: DictConfig) -> float | None:
    """Return the hours predicted from runs recorded here; None if there are none."""
    each = recorded(config)
    seconds = forecast(amounts(config), each)["all"] if each else None
    return None if seconds is None else seconds / 3600
