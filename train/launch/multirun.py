"""Several runs from one command: a sweep (``-m sweep=NAME``) or a grid (``-m algo=ppo,grpo``).

Hydra itself answers ``--info``, ``--cfg hydra``, ``--hydra-help`` and completion.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import hydra
from omegaconf import DictConfig
from rich.table import Table

from turngrid.config import base
from turngrid.config.compose import compose, packages, search_path
from turngrid.config.overrides import parse
from turngrid.experiments.cost_estimate.amounts import amounts, forecast, recorded
from turngrid.experiments.evaluation.result import State, state
from turngrid.experiments.evaluation.tables import plain_text
from turngrid.experiments.sweep import record
from turngrid.records.process.exit_codes import say
from turngrid.records.run_folder import put_aside, run_name
from turngrid.tasks.budget import allocate_budget
from turngrid.train.launch import launching, one_run
from turngrid.train.launch.sweep import Launch, prepare_launch

Start = Callable[[], int]


def ready(arguments: Sequence[str], args: argparse.Namespace) -> Start:
    """Return a function that starts the runs; its exit code tells whether every run succeeded.

    Raises:
        ConfigError: a run cannot be composed or launched; nothing has been started.
    """
    base.register()
    if args.shell_completion or args.hydra_help:
        return lambda: _hydra(arguments)
    if not args.multirun:
        return _ready_hydra(arguments, args)
    launch = prepare_launch(args.overrides, args.config_dir)
    if launch.dry_run:
        return lambda: _print(launch)
    start = launching.launcher(launch.configs[0], args.config_dir)
    return lambda: _start(launch, start)


def _start(launch: Launch, start: launching.Launcher) -> int:
    """Start the unfinished runs, each once: two settings of a sweep may share a run."""
    for path in launch.folders if launch.fresh else ():  # once: a requeued job must resume in its folder
        put_aside(path)
    folder = record.write(launch.sweep, launch.output_dir, launch.whole) if launch.output_dir else None
    runs = dict(zip(launch.folders, zip(launch.sweep.runs, launch.labels, strict=True), strict=True))
    left = [run for path, run in runs.items() if state(path) is not State.FINISHED]
    say(f"{launch.sweep.title}: {len(left)} runs to go, {len(runs) - len(left)} finished")
    jobs = [one_run.Run(number, tuple(run.overrides), label) for number, (run, label) in enumerate(left, 1)]
    code = _exit_code(start(jobs))
    if folder:
        _report("--text", str(folder))
    if folder and launch.sweep.scale:
        _report(str(folder))
    elif folder:
        print(f"\nas a page, with curves: python -m experiments.report {folder}", flush=True)
    if folder and launch.sweep.suite is not None:
        one_run.call([sys.executable, "-P", "-m", "turngrid.experiments.suite", str(folder)])
    return code


def _report(*arguments: str) -> None:
    one_run.call([sys.executable, "-P", "-m", "turngrid.experiments.report", *arguments])


def _exit_code(failed: Sequence[str]) -> int:
    for line in failed:
        print(f"turngrid: failed: {line}", file=sys.stderr)
    return 1 if failed else 0


def _print(launch: Launch) -> int:
    """Print the table of a dry run, and the script for SLURM."""
    named = list(zip(launch.labels, launch.configs, strict=True))
    print(dry_run_table(f"{launch.sweep.title}: {launch.sweep.folder_name}", named))
    config = launch.configs[0]
    if config.cluster.launcher == launching.SLURM:
        launching.check_slurm(config)
        from turngrid.train.launch import slurm

        folder = Path(config.output_dir).expanduser().absolute() / launching.SLURM
        print(f"\nsbatch would get:\n\n{slurm.script(config.cluster.slurm, folder, len(launch.configs))}")
    return 0


# ---- Hydra's own answers


def _ready_hydra(arguments: Sequence[str], args: argparse.Namespace) -> Start:
    compose(args.overrides, args.config_dir)  # a one-line error for what cannot be composed
    shown = search_path(packages(parse(args.overrides), args.config_dir))
    return lambda: _hydra([*arguments, *shown])


def _hydra(arguments: Sequence[str]) -> int:
    sys.argv[1:] = arguments
    _hydra_app()
    return 0


@hydra.main(version_base="1.3", config_path=str(base.CONF), config_name="config")
def _hydra_app(config: DictConfig) -> None:
    """Do nothing: Hydra answers these flags before it would run a job."""


WIDTH = 160
NOT_RECORDED = "no run of this kind was recorded on this machine"


def dry_run_table(title: str, runs: Sequence[tuple[str, DictConfig]]) -> str:
    """Return the runs in launch order, with totals."""
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
