"""Choose the runs of a report, and the settings that they share and that vary."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from turngrid.envs.utils.names import file_name, meant
from turngrid.experiments.report.runs import ReportedRun, group_by, read_run, setting_names
from turngrid.experiments.report.samples import BASE
from turngrid.experiments.sweep import record
from turngrid.experiments.sweep.definition import Layout, Selector
from turngrid.experiments.sweep.record import Sweep
from turngrid.experiments.viewer.sources import refuse_twins
from turngrid.records.process.exit_codes import Refusal
from turngrid.records.provenance import ATTEMPTS
from turngrid.records.run_folder import outside_identity

MARKS = (ATTEMPTS, "config.yaml")  # an evaluation without training has only a result
MOST_COLUMNS = 9
NAMED = {  # config key -> name of the axis if the runs belong to no sweep
    "env.name": "env",
    "env.task": "task",
    "turn_reward.name": "reward",
    "algo.name": "algo",
    "budget.name": "budget",
    "curriculum.name": "curriculum",
    "model.name": "model",
}
SHOWN = (  # config keys in the order in which the page shows them
    *NAMED,
    "env.max_turns",
    "budget.units",
    "budget.count",
    "budget.rl_steps",
    "budget.sft_share",
    "data.train_batch_size",
    "actor_rollout_ref.rollout.n",
    "actor_rollout_ref.actor.ppo_mini_batch_size",
    "actor_rollout_ref.rollout.temperature",
    "actor_rollout_ref.actor.optim.lr",
    "critic.optim.lr",
    "actor_rollout_ref.actor.clip_ratio",
    "actor_rollout_ref.actor.loss_agg_mode",
    "algorithm.gamma",
    "algorithm.lam",
    "algorithm.use_kl_in_reward",
    "algorithm.kl_ctrl.kl_coef",
    "actor_rollout_ref.actor.use_kl_loss",
    "actor_rollout_ref.actor.kl_loss_coef",
    "model.sft.lr",
    "model.sft.epochs",
    "eval.tasks",
    "eval.games",
    "eval.samples_per_game",
    "eval.temperatures",
)
MISSING = "-"
REPORTS = "reports"  # holds a folder for each group of comparable runs
OF_TEST = ("env.", "eval.")  # keys that decide which games are played, and how
OF_TRAINING = ("env.task", "env.tasks", "env.max_turns")  # not of the test if eval.tasks names its tasks


@dataclass(frozen=True)
class Subject:
    """The subject of a report: its runs and where it goes."""

    sweep: Sweep
    runs: Sequence[ReportedRun]
    folder: Path
    loose: bool = False
    left_out: tuple[str, ...] = ()  # a line for each run of the folder that is in no report


def subjects(paths: Sequence[Path]) -> list[Subject]:
    """Return one subject for each sweep or grid, one for all named runs, and one for each group of
    comparable runs in a folder.

    Raises:
        Refusal: a path is neither a sweep, a run nor a folder of runs, or two have one name.
    """
    absolute = (path.expanduser().absolute() for path in paths)
    folders = [path.parent if path.name == record.FILE else path for path in absolute]
    sweeps = [path for path in folders if (path / record.FILE).exists()]
    loose = [path for path in folders if path not in sweeps]
    return list(map(_of_sweep, sweeps)) + (_of_runs(loose) if loose else [])


def _of_sweep(folder: Path) -> Subject:
    sweep = record.read(folder)
    assert sweep is not None
    root = folder.parent.parent
    runs = [read_run(root / run.folder, run.coordinates, run.seed) for run in sweep.runs]
    if not sweep.scale:  # a grid
        sweep = msgspec.structs.replace(sweep, layout=_layout(runs))
    return Subject(sweep, runs, folder)


def _runs_in(path: Path) -> list[Path]:
    """Return the path if it is a run folder, else the run folders in it."""
    if not path.is_dir():
        there = [entry.name for entry in path.parent.iterdir() if entry.is_dir()] if path.parent.is_dir() else []
        raise Refusal(f"{path} does not exist{meant(path.name, there)}")
    if _is_run(path):
        return [path]
    if folders := [folder for folder in sorted(path.iterdir()) if folder.is_dir() and _is_run(folder)]:
        return folders
    sweeps = sorted(path.glob(f"**/{record.FILE}"))[:1]
    hint = f"; it holds the sweep {sweeps[0].parent}" if sweeps else ""
    raise Refusal(f"{path} is no run folder and holds none{hint}")


def _is_run(folder: Path) -> bool:
    return any((folder / mark).exists() for mark in MARKS)


def _of_runs(paths: Sequence[Path]) -> list[Subject]:
    folders = list(dict.fromkeys(folder for path in paths for folder in _runs_in(path)))
    refuse_twins(folders)
    runs = [read_run(folder) for folder in folders]
    named = all(_is_run(path) for path in paths)
    groups, left_out = ({"": runs}, ()) if named else comparable(runs)
    parents = {folder.parent for folder in folders}
    root = paths[0] if len(paths) == 1 else parents.pop() if len(parents) == 1 else Path.cwd()
    if len(groups) == 1:
        return [_of_group(root.name, group, root, left_out) for group in groups.values()]
    return [_of_group(name, group, root / REPORTS / name, left_out) for name, group in groups.items()]


def _of_group(name: str, runs: Sequence[ReportedRun], folder: Path, left_out: tuple[str, ...]) -> Subject:
    """Make up a sweep's record for runs that belong to no sweep."""
    placed = [replace(run, coordinates=position) for run, position in zip(runs, coordinates(runs), strict=True)]
    name, title = (placed[0].name,) * 2 if len(placed) == 1 else (name, f"Runs in {name}")
    sweep = Sweep(name, "", title, "", None, "", _layout(placed), (), [], [])
    return Subject(sweep, placed, folder, True, left_out)


def _layout(runs: Sequence[ReportedRun]) -> Layout:
    """Lay out settings by models (and evaluation sets)."""
    rows = {name or "success": dict(run.coordinates) for run, name in zip(runs, setting_names(runs), strict=True)}
    return Layout(rows=rows, columns=_columns(runs))


def _columns(runs: Sequence[ReportedRun]) -> dict[str, Selector]:
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


def shared_and_varied(runs: Sequence[ReportedRun]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the shown settings that all runs share, and all settings that vary, by key."""
    known = [run for run in runs if run.settings]
    varied = {key: _values(known, key) for key in varying(known)}
    values = {key: _values(known, key) for key in SHOWN if key not in varied}
    return {key: own[0] for key, own in values.items() if own and own != [MISSING]}, varied


def varying(runs: Sequence[ReportedRun]) -> list[str]:
    """Return the keys that differ between runs, without seeds, trackers and machine."""
    moving = [str(key) for key, count in _table(runs).nunique().items() if count > 1]
    seeds = {key for key in moving if all(run.settings.get(key) == run.seed for run in runs)}
    outside = tuple(f"{key}." for key in (*outside_identity(), "extend"))  # each seed extends a separate run
    keys = [key for key in moving if key not in seeds and not f"{key}.".startswith(outside)]
    return sorted(keys, key=lambda key: (SHOWN.index(key) if key in SHOWN else len(SHOWN), key))


def _table(runs: Sequence[ReportedRun]) -> pd.DataFrame:
    """Return one row per run and one column per key; values as text, since some are lists."""
    rows = [{key: repr(value) for key, value in run.settings.items()} for run in runs]
    return pd.DataFrame(rows).fillna("None")


def _values(runs: Sequence[ReportedRun], key: str) -> list[str]:
    return list(dict.fromkeys(_text(run.settings.get(key)) for run in runs))


def _text(value: Any) -> str:
    if value is None or value == []:
        return MISSING
    return f"{value:g}" if isinstance(value, float) else str(value)


def coordinates(runs: Sequence[ReportedRun]) -> list[Mapping[str, str]]:
    """Return axes: the named keys that vary, and others until every config differs."""
    keys, table = varying(runs), _table(runs)
    axes = [key for key in keys if key in NAMED]
    for key in (key for key in keys if key not in NAMED):
        if not axes or len(table[[*axes, key]].drop_duplicates()) > len(table[axes].drop_duplicates()):
            axes.append(key)
    return [{NAMED.get(key, key): _text(run.settings.get(key)) for key in axes} for run in runs]


def comparable(runs: Sequence[ReportedRun]) -> tuple[dict[str, list[ReportedRun]], tuple[str, ...]]:
    """Group runs with the same test games and settings, by name; list those left out.

    A group without a result is left out if another has one, a run alone if another group has more.
    """

    def of_test(run: ReportedRun) -> str:
        outside = {*outside_identity(), *(OF_TRAINING if run.settings.get("eval.tasks") else ())}
        known = ((key, value) for key, value in run.settings.items() if key.startswith(OF_TEST))
        return repr(sorted((key, value) for key, value in known if not {key, key.rpartition(".")[0]} & outside))

    groups = group_by(runs, of_test).values()
    tested = [group for group in groups if any(run.result for run in group)]
    if not tested:
        return {"": list(runs)}, ()
    several = [group for group in tested if len(group) > 1] or tested
    names = [_name(next(run for run in group if run.result)) for group in several]
    full = [f"{name}-{index}" if names.count(name) > 1 else name for index, name in enumerate(names, 1)]
    others = [run for group in groups if group not in several for run in group]
    left_out = (f"{run.name}: {run.state}, no other tested run has its test games and settings" for run in others)
    return dict(zip(full, several, strict=True)), tuple(left_out)


def _name(run: ReportedRun) -> str:
    """Return a group's name, such as ``textworld-w2-o3-q4``, from one of its finished runs."""
    tasks = "+".join(dict.fromkeys(task for _, task in run.evaluation_sets))
    return file_name(f"{run.evaluations[0].env}-{tasks}", also="+")
