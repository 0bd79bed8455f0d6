"""What a report is about: a sweep with its record, or runs that lie somewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from envs.utils.names import meant
from experiments.evaluation import result
from experiments.report.comparable import Groups, comparable
from experiments.report.runs import Run, read_run, setting_names
from experiments.report.samples import BASE
from experiments.report.settings import coordinates
from experiments.sweep import record
from experiments.sweep.definition import Layout, Selector
from experiments.sweep.record import Sweep
from records.process.exit_codes import Refusal
from records.provenance import ATTEMPTS

MARKS = (result.FILE, ATTEMPTS, "config.yaml")
MOST_COLUMNS = 9
WITHOUT_SCALE = "as run"
REPORTS = "reports"  # a folder for each group of comparable runs


class ReportError(Refusal):
    """There is nothing to report under this path; the message is one line."""


@dataclass(frozen=True)
class Subject:
    """``sweep`` is the sweep's record, or one made up for loose runs; ``folder`` is where its report goes. ``left_out``: a line
    for each run of the folder that is in no report."""

    sweep: Sweep
    runs: Sequence[Run]
    folder: Path
    loose: bool = False
    left_out: tuple[str, ...] = ()


def subjects(paths: Sequence[Path]) -> list[Subject]:
    """One a sweep's or a grid's folder, one for all runs that are named, and one for each group of comparable runs in folders.

    Raises:
        ReportError: a path that is neither a sweep, a run nor a folder of runs.
    """
    absolute = [path.expanduser().absolute() for path in paths]
    sweeps = [path for path in absolute if (_folder(path) / record.FILE).exists()]
    loose = [run for path in absolute if path not in sweeps for run in _runs_in(path)]
    found = [_of_sweep(_folder(path)) for path in sweeps]
    return [*found, *_of_runs(loose, absolute)] if loose else found


def _folder(path: Path) -> Path:
    return path.parent if path.name == record.FILE else path


def _of_sweep(folder: Path) -> Subject:
    try:
        sweep = record.read(folder)
    except msgspec.MsgspecError as error:
        raise ReportError(f"{folder / record.FILE} cannot be read: {error}") from error
    assert sweep is not None
    root = folder.parent.parent
    runs = [_read(root / run.folder, run) for run in sweep.runs]
    if not sweep.scale:  # a grid
        sweep = msgspec.structs.replace(sweep, layout=_layout(runs))
    return Subject(sweep, runs, folder)


def _read(folder: Path, run: record.SweepRun | None = None) -> Run:
    try:
        if run is not None:
            return read_run(folder, run.coordinates, run.seed)
        return read_run(folder)
    except (ValueError, TypeError, KeyError) as error:
        raise ReportError(f"{folder} cannot be read: {' '.join(str(error).split())}") from error


def _runs_in(path: Path) -> list[Path]:
    """A run folder, or the run folders in a folder.

    Raises:
        ReportError: neither.
    """
    if not path.is_dir():
        there = [entry.name for entry in path.parent.iterdir() if entry.is_dir()] if path.parent.is_dir() else []
        raise ReportError(f"{path} does not exist{meant(path.name, there)}")
    if _is_run(path):
        return [path]
    if found := [folder for folder in sorted(path.iterdir()) if folder.is_dir() and _is_run(folder)]:
        return found
    sweeps = sorted(path.glob(f"**/{record.FILE}"))[:3]
    hint = f"; it holds the sweep {sweeps[0].parent}" if sweeps else ""
    raise ReportError(f"{path} is no run folder and holds none{hint}")


def _is_run(folder: Path) -> bool:
    return any((folder / mark).exists() for mark in MARKS)


def _of_runs(folders: Sequence[Path], given: Sequence[Path]) -> list[Subject]:
    runs = [_read(folder) for folder in dict.fromkeys(folders)]
    named = all(_is_run(path) for path in given if not (_folder(path) / record.FILE).exists())
    groups = Groups({"": runs}) if named else comparable(runs)
    asked = [path for path in given if path.is_dir() and not (path / record.FILE).exists()]
    parents = {folder.parent for folder in folders}
    place = asked[0] if len(asked) == 1 else parents.pop() if len(parents) == 1 else Path.cwd()
    if len(groups.runs) == 1:
        return [_of_group(place.name, group, place, groups.left_out) for group in groups.runs.values()]
    return [_of_group(name, group, place / REPORTS / name, groups.left_out) for name, group in groups.runs.items()]


def _of_group(name: str, runs: Sequence[Run], folder: Path, left_out: tuple[str, ...]) -> Subject:
    placed = [replace(run, coordinates=place) for run, place in zip(runs, coordinates(runs), strict=True)]
    return Subject(_made_up(placed[0].name if len(placed) == 1 else name, placed), placed, folder, True, left_out)


def _made_up(name: str, runs: Sequence[Run]) -> Sweep:
    """The record of a sweep that runs could be of."""
    return Sweep(
        name=name,
        scale=WITHOUT_SCALE,
        title=name if len(runs) == 1 else f"Runs in {name}",
        question="",
        published=None,
        note="",
        layout=_layout(runs),
        takeaways=(),
        extra=[],
        runs=[],
    )


def _layout(runs: Sequence[Run]) -> Layout:
    """A table of settings by models (and evaluation sets)."""
    rows = {name or "success": dict(run.coordinates) for run, name in zip(runs, setting_names(runs), strict=True)}
    return Layout(rows=rows, columns=_columns(runs))


def _columns(runs: Sequence[Run]) -> dict[str, Selector]:
    stages = [stage for stage in (BASE, "sft", "rl") if any(run.stage(stage) for run in runs)] or ["last"]
    evaluation_sets = list(dict.fromkeys(evaluation_set for run in runs for evaluation_set in run.evaluation_sets))
    several = any(len(run.evaluation_sets) > 1 for run in runs)
    if not several:
        return {stage: {"stage": stage} for stage in stages}
    shown = stages if len(stages) * len(evaluation_sets) <= MOST_COLUMNS else ["last"]
    environments = len({env for env, _ in evaluation_sets}) > 1
    return {
        f"{stage} on {f'{env}/{task}' if environments else task}": {"stage": stage, "evaluation_set": f"{env}/{task}"}
        for env, task in evaluation_sets
        for stage in shown
    }
