"""Choose the runs of a report, and the settings that vary between them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from turngrid.envs.utils.names import meant
from turngrid.experiments.evaluation import result
from turngrid.experiments.report.runs import Run, read_run, setting_names
from turngrid.experiments.report.samples import BASE
from turngrid.experiments.sweep import record
from turngrid.experiments.sweep.definition import Layout, Selector
from turngrid.experiments.sweep.record import Sweep
from turngrid.records.process.exit_codes import Refusal
from turngrid.records.provenance import ATTEMPTS
from turngrid.records.run_folder import outside_identity

MARKS = (result.FILE, ATTEMPTS, "config.yaml")
MOST_COLUMNS = 9
WITHOUT_SCALE = "as run"
# Config keys that are axes before all others, if the runs belong to no sweep
FIRST = ("env.name", "env.task", "turn_reward.name", "algo.name", "budget.name", "curriculum.name", "model.name")
MISSING = "-"


@dataclass(frozen=True)
class Subject:
    """The subject of a report: its runs and where it goes."""

    sweep: Sweep
    runs: Sequence[Run]
    folder: Path
    loose: bool = False


def subjects(paths: Sequence[Path]) -> list[Subject]:
    """Return one subject for each sweep or grid, and one for all other runs.

    Raises:
        Refusal: a path is neither a sweep, a run nor a folder of runs.
    """
    folders = [path.expanduser().absolute() for path in paths]
    sweeps = [path for path in folders if (path / record.FILE).exists()]
    loose = [path for path in folders if path not in sweeps]
    return [*map(_of_sweep, sweeps), *([_of_runs(loose)] if loose else [])]


def _of_sweep(folder: Path) -> Subject:
    sweep = record.read(folder)
    assert sweep is not None
    root = folder.parent.parent
    runs = [_read(root / run.folder, run) for run in sweep.runs]
    if not sweep.scale:  # a grid
        sweep = msgspec.structs.replace(sweep, layout=_layout(runs))
    return Subject(sweep, runs, folder)


def _read(folder: Path, run: record.SweepRun | None = None) -> Run:
    try:
        return read_run(folder, run.coordinates, run.seed) if run else read_run(folder)
    except (ValueError, TypeError, KeyError) as error:
        raise Refusal(f"{folder} cannot be read: {' '.join(str(error).split())}") from error


def _runs_in(path: Path) -> list[Path]:
    """Return the path if it is a run folder, else the run folders in it."""
    if not path.is_dir():
        there = [entry.name for entry in path.parent.iterdir() if entry.is_dir()] if path.parent.is_dir() else []
        raise Refusal(f"{path} does not exist{meant(path.name, there)}")
    if _is_run(path):
        return [path]
    if folders := [folder for folder in sorted(path.iterdir()) if folder.is_dir() and _is_run(folder)]:
        return folders
    raise Refusal(f"{path} is no run folder and holds none")


def _is_run(folder: Path) -> bool:
    return any((folder / mark).exists() for mark in MARKS)


def _of_runs(paths: Sequence[Path]) -> Subject:
    """Make up a sweep's record for runs that belong to no sweep."""
    folders = list(dict.fromkeys(folder for path in paths for folder in _runs_in(path)))
    runs = [_read(folder) for folder in folders]
    placed = [replace(run, coordinates=position) for run, position in zip(runs, coordinates(runs), strict=True)]
    parents = {folder.parent for folder in folders}
    root = paths[0] if len(paths) == 1 else parents.pop() if len(parents) == 1 else Path.cwd()
    name, title = (placed[0].name,) * 2 if len(placed) == 1 else (root.name, f"Runs in {root.name}")
    sweep = Sweep(name, WITHOUT_SCALE, title, "", None, "", _layout(placed), (), [], [])
    return Subject(sweep, placed, root, loose=True)


def _layout(runs: Sequence[Run]) -> Layout:
    """Lay out settings by models (and evaluation sets)."""
    rows = {name or "success": dict(run.coordinates) for run, name in zip(runs, setting_names(runs), strict=True)}
    return Layout(rows=rows, columns=_columns(runs))


def _columns(runs: Sequence[Run]) -> dict[str, Selector]:
    stages = [stage for stage in (BASE, "sft", "rl") if any(run.stage(stage) for run in runs)] or ["last"]
    evaluation_sets = list(dict.fromkeys(evaluation_set for run in runs for evaluation_set in run.evaluation_sets))
    if not any(len(run.evaluation_sets) > 1 for run in runs):
        return {stage: {"stage": stage} for stage in stages}
    shown = stages if len(stages) * len(evaluation_sets) <= MOST_COLUMNS else ["last"]
    environments = len({env for env, _ in evaluation_sets}) > 1
    return {
        f"{stage} on {f'{env}/{task}' if environments else task}": {"stage": stage, "evaluation_set": f"{env}/{task}"}
        for env, task in evaluation_sets
        for stage in shown
    }


def varied(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Return the values of all settings that vary, by key."""
    known = [run for run in runs if run.settings]
    return {key: list(dict.fromkeys(_text(run.settings.get(key)) for run in known)) for key in varying(known)}


def varying(runs: Sequence[Run]) -> list[str]:
    """Return the keys that differ between runs, without seeds, trackers and machine."""
    moving = [str(key) for key, count in _table(runs).nunique().items() if count > 1]
    seeds = {key for key in moving if all(run.settings.get(key) == run.seed for run in runs)}
    outside = tuple(f"{key}." for key in (*outside_identity(), "extend"))  # each seed extends a separate run
    keys = sorted(key for key in moving if key not in seeds and not f"{key}.".startswith(outside))
    return sorted(keys, key=lambda key: FIRST.index(key) if key in FIRST else len(FIRST))


def _table(runs: Sequence[Run]) -> pd.DataFrame:
    """Return one row per run and one column per key; values as text, since some are lists."""
    rows = [{key: repr(value) for key, value in run.settings.items()} for run in runs]
    return pd.DataFrame(rows).fillna("None")


def _text(value: Any) -> str:
    if value is None or value == []:
        return MISSING
    return f"{value:g}" if isinstance(value, float) else str(value)


def coordinates(runs: Sequence[Run]) -> list[Mapping[str, str]]:
    """Return axes: the keys of ``FIRST`` that vary, and others until every config differs."""
    keys, table = varying(runs), _table(runs)
    axes = [key for key in keys if key in FIRST]
    for key in (key for key in keys if key not in FIRST):
        if not axes or len(table[[*axes, key]].drop_duplicates()) > len(table[axes].drop_duplicates()):
            axes.append(key)
    return [{key.removesuffix(".name"): _text(run.settings.get(key)) for key in axes} for run in runs]
