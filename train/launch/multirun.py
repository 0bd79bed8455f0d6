"""Several runs from one command: a sweep (``-m sweep=NAME``) or a grid (``-m algo=ppo,grpo``).

Hydra itself answers ``--shell-completion``.
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import hydra
from omegaconf import DictConfig
from rich.table import Table

from turngrid.config import base, machine
from turngrid.config.errors import ConfigError
from turngrid.envs.utils.child_path import child_path
from turngrid.experiments.cost_estimate import estimate
from turngrid.experiments.cost_estimate.amounts import amounts, forecast, recorded
from turngrid.experiments.evaluation.result import State, state
from turngrid.experiments.evaluation.tables import plain_text
from turngrid.experiments.sweep import record
from turngrid.experiments.sweep.definition import SweepRun
from turngrid.records.process.exit_codes import Refusal, say
from turngrid.records.run_folder import put_aside, run_name
from turngrid.tasks.run import Run
from turngrid.train.launch import launching, one_run
from turngrid.train.launch.sweep import TAKEN_BY_SWEEPS, Launch, prepare_launch

Start = Callable[[], int]
LABORATORY = "sweep=mismatch_laptop"


def ready(arguments: Sequence[str], args: argparse.Namespace) -> Start:
    """Return a function that starts the runs; its exit code reports whether every run succeeded.

    Raises:
        ConfigError: a run cannot be composed or launched; nothing has been started.
    """
    base.register()
    if args.shell_completion:
        base.store_tree(base.verl_tree())
        return lambda: _hydra(arguments)
    if LABORATORY in args.overrides:
        return _laboratory(args.overrides)
    launch = prepare_launch(args.overrides, args.config_dir)
    if launch.dry_run:
        return lambda: _print(launch)
    if all(config.estimate or config.estimate_gpu for config in launch.configs):
        runs = _numbered(zip(launch.sweep.runs, launch.labels, strict=True))
        return lambda: 1 if launching.one_by_one(runs, args.config_dir) else 0
    start = launching.launcher(launch.configs, args.config_dir)
    _check_machine(launch)
    return lambda: _start(launch, start)


def _check_machine(launch: Launch) -> None:
    """Raise ConfigError if a run does not fit, or lacks a package or GPU on this machine."""
    for run, config in zip(launch.sweep.runs, launch.configs, strict=True):
        try:
            if config.cluster.launcher != launching.SLURM:
                machine.check(config)
            estimate.check(Run(config), lambda note: None)  # each run prints its notes itself
        except Refusal as error:
            raise ConfigError(f"{run.label}: {error}" if len(launch.configs) > 1 else str(error)) from error


def _numbered(runs: Iterable[tuple[SweepRun, str]]) -> list[one_run.LaunchedRun]:
    return [one_run.LaunchedRun(number, tuple(run.overrides), label) for number, (run, label) in enumerate(runs, 1)]


def _laboratory(overrides: Sequence[str]) -> Start:
    """Return what measures corrections; its cells are no runs of training (docs/mismatch.md)."""
    words = [text for text in overrides if text not in (LABORATORY, "scale=laptop")]
    for text in words:
        if text.partition("=")[0] in TAKEN_BY_SWEEPS:
            raise ConfigError(f"{text} and {LABORATORY}: it has no runs of training; use seeds=2 batches=2 steps=1")
    if not (base.ROOT / "benchmarks").exists():
        raise ConfigError(f"{LABORATORY}: an installed turngrid lacks it; use a checkout")
    path = {"PYTHONPATH": os.pathsep.join([str(base.ROOT), child_path()])}  # benchmarks is no part of turngrid
    return lambda: one_run.call([sys.executable, "-P", "-m", "benchmarks.mismatch", *words], path)


def _start(launch: Launch, start: launching.Launcher) -> int:
    """Start the unfinished runs, each once: two settings of a sweep may share a run."""
    for path in launch.folders if launch.fresh else ():  # once: a requeued job must resume in its folder
        put_aside(path)
    folder = record.write(launch.sweep, launch.output_dir, launch.whole) if launch.output_dir else None
    runs = dict(zip(launch.folders, zip(launch.sweep.runs, launch.labels, strict=True), strict=True))
    left = [run for path, run in runs.items() if state(path) is not State.FINISHED]
    say(f"{launch.sweep.title}: {len(left)} runs to go, {len(runs) - len(left)} finished")
    failed = start(_numbered(left))
    for line in failed:
        say(f"failed: {line}")
    pages = ["report"] if launch.sweep.suite is None else ["report", "suite"]
    for page in pages if folder else ():
        one_run.call([sys.executable, "-P", "-m", f"turngrid.experiments.{page}", str(folder)])
    return 1 if failed else 0


def _print(launch: Launch) -> int:
    """Print the table of a dry run, and the script for SLURM."""
    settings = zip(launch.labels, launch.configs, strict=True)
    named = list(dict(zip(launch.folders, settings, strict=True)).values())  # each run once, as ``_start``
    print(dry_run_table(f"{launch.sweep.title}: {launch.sweep.folder_name}", named))
    config = launch.configs[0]
    if config.cluster.launcher == launching.SLURM:
        launching.check_slurm(config)
        from turngrid.train.launch import slurm

        folder = Path(config.output_dir).expanduser().absolute() / launching.SLURM
        print(f"\nsbatch would get:\n\n{slurm.script(config.cluster.slurm, folder, len(named))}")
    return 0


def _hydra(arguments: Sequence[str]) -> int:
    sys.argv[1:] = arguments
    _hydra_app()
    return 0


@hydra.main(version_base="1.3", config_path=str(base.CONF), config_name="config")
def _hydra_app(config: DictConfig) -> None:
    """Do nothing: Hydra completes before it would run a job."""


WIDTH = 160
NOT_RECORDED = "no run of this kind was recorded on this machine"


def dry_run_table(title: str, runs: Sequence[tuple[str, DictConfig]]) -> str:
    """Return the runs in launch order, with totals."""
    root = Path(runs[0][1].output_dir).expanduser().absolute()
    table, states, episodes = Table(title=title, title_justify="left"), Counter[str](), 0
    hours: list[float | None] = []  # of the runs that are left, predicted from runs recorded here
    for column in ("run", "state", "episodes", "hours", "folder"):
        table.add_column(column, overflow="fold")
    for label, config in runs:
        run = Run(config)
        name, played, each = run_name(config), run.allocation.episodes, recorded(run)
        seconds = forecast(amounts(run), each)["all"] if each else None
        hour, run_state = None if seconds is None else seconds / 3600, state(root / name)
        table.add_row(label, run_state, f"{played:,}", "?" if hour is None else f"{hour:.2f}", name)
        states[run_state] += 1
        if run_state is not State.FINISHED:
            hours.append(hour)
            episodes += played
    known = [hour for hour in hours if hour is not None]
    lines = [f"{len(runs)} runs: {', '.join(f'{count} {run_state}' for run_state, count in states.items())}"]
    lines.append(f"to run: {episodes:,} RL episodes; folders are in {root}")
    if known:
        lines.append(f"predicted: {sum(known):.1f} h for {len(known)} runs, one after the other, games made already")
    if len(known) < len(hours):
        lines.append(f"hours of {len(hours) - len(known)} runs are not known: {NOT_RECORDED}")
    return "\n".join([plain_text([table], WIDTH).rstrip(), *lines])
