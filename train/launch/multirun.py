"""Several runs from one command: a sweep (``-m sweep=NAME``) or a grid (``-m algo=ppo,grpo``).

Hydra itself launches only if the command line sets one of its own keys (``hydra/sweeper=optuna``).
"""

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf
from rich.table import Table

from turngrid.config import base
from turngrid.config.checks.model import unusable_folders
from turngrid.config.compose import composer, packages, search_path
from turngrid.config.errors import ConfigError
from turngrid.config.overrides import SEARCHPATH, parse, places, search_paths, typed
from turngrid.experiments.cost_estimate.amounts import amounts, forecast, recorded
from turngrid.experiments.evaluation.result import State, state
from turngrid.experiments.evaluation.tables import plain_text
from turngrid.experiments.sweep import record
from turngrid.records.process.exit_codes import say
from turngrid.records.run_folder import put_aside, run_name
from turngrid.tasks.budget import allocate_budget
from turngrid.train.launch import launching, one_run
from turngrid.train.launch.sweep import Launch, compose_runs, grid, is_true, prepare_launch, sweep_asked_for

_failed: list[str] = []  # a line for each run that Hydra launched and that failed
Start = Callable[[], int]


class RunFailed(RuntimeError):
    """A run failed that Hydra started with a launcher other than ours."""


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
    if sweep_asked_for(args.overrides):
        return _ready_sweep(args)
    dry_run = is_true(parse(args.overrides), "dry_run")
    if _of_hydra(args.overrides) and not dry_run:
        return _ready_hydra(arguments, args)
    return _ready_grid(args, dry_run)


def _of_hydra(overrides: Sequence[str]) -> list[Override]:
    """Return overrides of Hydra's own keys, except the folders of options."""
    own = [override for override in parse(overrides) if override.key_or_group.startswith("hydra")]
    return [override for override in own if override.key_or_group != SEARCHPATH]


# ---- sweeps and grids


def _ready_sweep(args: argparse.Namespace) -> Start:
    if own := next(iter(_of_hydra(args.overrides)), None):
        raise ConfigError(f"{typed(own)}: Hydra does not launch a sweep; use cluster=slurm or cluster=local_parallel")
    launch = prepare_launch(args.overrides, args.config_dir)
    if launch.dry_run:
        named = list(zip((run.label for run in launch.sweep.runs), launch.configs, strict=True))
        return lambda: _print(dry_run_table(f"{launch.sweep.title}: {launch.sweep.folder_name}", named), launch.configs)
    start = launching.launcher(launch.configs[0], args.config_dir)
    return lambda: _start_sweep(launch, start, search_paths(args.overrides))


def _start_sweep(launch: Launch, start: launching.Launcher, paths: Sequence[str]) -> int:
    """Start the unfinished runs, each once: two settings of a sweep may share a run."""
    for run in launch.sweep.runs if launch.fresh else ():  # once: a requeued job must resume in its folder
        put_aside(launch.output_dir / run.folder)
    folder = record.write(launch.sweep, launch.output_dir, launch.whole)
    runs = launch.sweep.runs
    left = [run for run in runs if state(launch.output_dir / run.folder) is not State.FINISHED]
    say(f"sweep {launch.sweep.folder_name}: {len(left)} runs to go, {len(runs) - len(left)} finished")
    overrides = [[*paths, *run.overrides] for run in {run.folder: run for run in left}.values()]
    code = _exit_code(start(one_run.runs_of(overrides, folder.name)))
    _report("--text", str(folder))
    _report(str(folder))
    if launch.sweep.suite is not None:
        one_run.call([sys.executable, "-P", "-m", "turngrid.experiments.suite", str(folder)])
    return code


def _ready_grid(args: argparse.Namespace, dry_run: bool) -> Start:
    own = ("dry_run", "hydra/", "hydra.launcher", "hydra.sweep") if dry_run else ("dry_run",)
    given = [typed(override) for override in parse(args.overrides) if not override.key_or_group.startswith(own)]
    runs, configs = _composed(given, args.config_dir, checked=dry_run)
    if ranged := next((o for o in parse(given) if o.is_sweep_override() and not o.is_discrete_sweep()), None):
        raise ConfigError(
            f"{typed(ranged)}: only an optimiser's sweeper (hydra/sweeper=NAME) draws values from a range; write them "
            f"out, as in {ranged.key_or_group}=A,B"
        )
    if dry_run:
        labels = [run.label for run in one_run.runs_of(runs, "")]
        return lambda: _print(dry_run_table("The grid", list(zip(labels, configs, strict=True))), configs)
    start = launching.launcher(configs[0], args.config_dir)
    return lambda: _start_grid(args, runs, configs, start)


def _start_grid(
    args: argparse.Namespace, runs: list[list[str]], configs: list[DictConfig], start: launching.Launcher
) -> int:
    """Record the grid, start its runs and end with a table of all of them."""
    sweep = grid(args.overrides, runs, configs)
    folder = record.write(sweep, Path(configs[0].output_dir).expanduser().absolute()) if sweep else None
    group = "" if configs[0].tracking.group else folder.name if folder else one_run.STARTED
    code = _exit_code(start(one_run.runs_of(runs, group)))
    if folder:
        _report("--text", str(folder))
        print(f"\nas a page, with curves: python -m experiments.report {folder}", flush=True)
    return code


def _report(*arguments: str) -> None:
    one_run.call([sys.executable, "-P", "-m", "turngrid.experiments.report", *arguments])


def _exit_code(failed: Sequence[str]) -> int:
    for line in failed:
        print(f"turngrid: failed: {line}", file=sys.stderr)
    return 1 if failed else 0


def _print(table: str, configs: Sequence[DictConfig]) -> int:
    """Print the table of a dry run, and the script for SLURM."""
    print(table)
    config = configs[0]
    if config.cluster.launcher == launching.SLURM:
        launching.check_slurm(config)
        from turngrid.train.launch import slurm

        folder = Path(config.output_dir).expanduser().absolute() / launching.SLURM
        print(f"\nsbatch would get:\n\n{slurm.script(config.cluster.slurm, folder, len(configs))}")
    return 0


def _composed(
    overrides: list[str], config_dir: str | None, checked: bool = False
) -> tuple[list[list[str]], list[DictConfig]]:
    """Return overrides and configs of all runs, composed before any starts."""
    with composer(config_dir) as composed:
        runs = _product(overrides)
        configs = compose_runs(composed, runs, checked=checked)
    for config in configs:
        for problem in unusable_folders(config):
            raise ConfigError(problem)
    return runs, configs


def _product(overrides: list[str]) -> list[list[str]]:
    """Return every run's overrides, as Hydra's basic sweeper does."""
    parse(overrides)  # a one-line error for overrides that cannot be parsed
    parsed = OverridesParser.create(GlobalHydra.instance().config_loader()).parse_overrides(overrides)
    values: dict[str, list[str]] = {}
    for override in parsed:
        key = override.get_key_element()
        if not override.is_sweep_override():
            values[key] = [f"{key}={override.get_value_element_as_str()}"]
        elif override.is_discrete_sweep():
            values[key] = [f"{key}={value}" for value in override.sweep_string_iterator()]
            if not values[key]:
                raise ConfigError(f"{typed(override)} matches nothing; write the values out, as in {key}=A,B")
    return [list(run) for run in itertools.product(*values.values())]


# ---- Hydra's own launches


def _ready_hydra(arguments: Sequence[str], args: argparse.Namespace) -> Start:
    runs, configs = _composed(args.overrides, args.config_dir)
    if args.multirun:
        launching.launcher(configs[0], args.config_dir)  # raises if this machine cannot start it
    chosen = parse([text for run in runs for text in run])
    shown = search_path([*places(parse(args.overrides)), *packages(chosen, args.config_dir)])
    others = [text for text in arguments if text not in search_paths(args.overrides)]
    return lambda: _hydra([*others, *shown])


def _hydra(arguments: Sequence[str]) -> int:
    sys.argv[1:] = arguments
    _hydra_app()
    return _exit_code(_failed)


@hydra.main(version_base="1.3", config_path=str(base.CONF), config_name="config")
def _hydra_app(config: DictConfig) -> None:
    """Start one run of a multirun; Hydra answers ``--info`` and the like itself."""
    settings = HydraConfig.get()
    overrides = list(settings.overrides.task)
    group = "" if OmegaConf.select(config, "tracking.group") else one_run.STARTED
    named = (source for source in settings.runtime.config_sources if "command-line" in source.provider)
    folders = search_path([f"{source.schema}://{source.path}" for source in named])  # no part of a run's overrides
    own = [*folders, *overrides, *one_run.for_trackers(overrides, group, "")]
    run = one_run.Run(settings.job.num + 1, tuple(own), one_run.label(overrides))
    print(f"\nturngrid: run {run.number}: {run.label}", file=sys.stderr, flush=True)
    basic = settings.launcher._target_.endswith("BasicLauncher")
    # another launcher has put this process where the run computes
    code = one_run.call(one_run.command(run), **({} if basic else {one_run.LAUNCHED: "1"}))
    if code and not basic:
        raise RunFailed(f"{run.label} ended with exit code {code}")
    if code:
        _failed.append(f"{run.label} (exit code {code})")


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
