"""Several runs from one command, through Hydra's own sweepers and launchers.

verl, Ray and wandb keep global state, so each run is a process of its own: the same front door with that run's
overrides. One that fails does not stop the others.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf

from config import base
from config.checks import folders
from config.checks.check import check
from config.compose import composer, packages, search_path
from config.errors import ConfigError
from config.overrides import SEARCHPATH, parse, places, quoted, search_paths, typed
from envs.utils.parent import die_with_parent
from experiments.sweep import record
from experiments.sweep.record import Sweep
from hydra_plugins import turngrid_sweeper
from records.process.child import child_variables
from train.launch import grid, launching
from train.launch.sweep import Launch, composing_bar, prepare_launch, sweep_asked_for
from train.launch.sweep_words import SweepWords

_failed: list[str] = []
_varied: set[str] = set()  # keys with several values


class RunFailed(RuntimeError):
    """One run of several ended badly."""


def ready(arguments: Sequence[str], args: argparse.Namespace) -> Callable[[], int]:
    """What hands the command to Hydra; its exit code says whether every run ended well.

    Raises:
        ConfigError: a value that no run could be composed with; nothing has been started.
    """
    base.register()
    if args.multirun and sweep_asked_for(args.overrides):
        launch = prepare_launch(args.overrides, args.config_dir)
        if launch.dry_run:
            return lambda: _list(launch, args)
        for_sweep = launching.hydra_arguments(launch.configs[0], args)  # first of all, since it may refuse
        return lambda: _start(launch, args, for_sweep)
    if args.shell_completion or args.hydra_help:  # what else stands there is for Hydra alone
        return lambda: _hydra(arguments)
    if args.multirun and _dry(args.overrides):
        return lambda: _list_grid(args)
    listed = args.multirun and grid.is_listed(args.overrides)
    runs, configs, shown = _composed(args.overrides, args.config_dir, listed)
    if args.multirun and not _another_sweeper(args):
        _refuse_ranges(args.overrides)
    launcher = launching.hydra_arguments(configs[0], args) if args.multirun else []
    _varied.update(override.key_or_group for override in parse(args.overrides) if override.is_sweep_override())
    others = [text for text in arguments if text not in search_paths(args.overrides)]
    found = grid.grid(args.overrides, runs, configs) if listed else None
    return lambda: _start_grid([*others, *shown, *launcher], args, configs[0], found)


def _list(launch: Launch, args: argparse.Namespace) -> int:
    from train.launch.sweep_table import dry_run_table

    print(dry_run_table(launch))
    return _show_script(launch.configs, args)


def _show_script(configs: Sequence[DictConfig], args: argparse.Namespace) -> int:
    """Print what SLURM would get. Raises: ConfigError: it could not be launched, whatever SLURM says."""
    if configs[0].cluster.launcher == launching.SLURM:
        from train.launch import slurm

        params = launching.launcher_settings(configs[0], args)
        print(f"\nsbatch would get:\n\n{slurm.script(params, len(configs))}")
    return 0


def _dry(overrides: Sequence[str]) -> bool:
    """Raises: ConfigError: ``dry_run`` is neither true nor false."""
    return SweepWords([override for override in parse(overrides) if override.key_or_group == "dry_run"]).yes("dry_run")


def _list_grid(args: argparse.Namespace) -> int:
    """Raises: ConfigError: one of the runs could not be."""
    from train.launch.sweep_table import grid_table

    _refuse_ranges(args.overrides)
    given = [
        override for override in parse(args.overrides) if not override.key_or_group.startswith(("dry_run", "hydra"))
    ]
    runs: list[tuple[list[str], DictConfig]] = []
    with composer(args.config_dir) as composed:
        listed = _grid([*map(typed, given)])
        with composing_bar(len(listed)) as bar:
            for run in listed:
                runs.append((run, composed([*search_paths(args.overrides), *run])))
                check(runs[-1][1])
                bar.update()
    shared = set.intersection(*(set(run) for run, _ in runs))
    print(grid_table([(launching.label(run, shared), config) for run, config in runs]))
    return _show_script([config for _, config in runs], args)


def _another_sweeper(args: argparse.Namespace) -> bool:
    """Whether one may have been chosen, here or in a file of the user's own."""
    own = ("hydra/sweeper", "hydra.sweeper", SEARCHPATH)
    return bool(args.config_dir) or any(o.key_or_group.startswith(own) for o in parse(args.overrides))


def _refuse_ranges(overrides: Sequence[str]) -> None:
    """Raises: ConfigError: the values of one are no list, as in ``interval(0,1)``."""
    if found := next((o for o in parse(overrides) if o.is_sweep_override() and not o.is_discrete_sweep()), None):
        raise ConfigError(
            f"{typed(found)}: only an optimiser's sweeper (hydra/sweeper=NAME) draws values from a range; write them out, as in "
            f"{found.key_or_group}=A,B"
        )


def _start(launch: Launch, args: argparse.Namespace, launcher: Sequence[str]) -> int:
    """The report is made in a process of its own: whatever becomes of it, the runs have ended as they have."""
    code = _hydra([*_of_sweep(launch, args), *launcher])
    _child(["experiments.report", "--text", str(launch.folder)], {})
    _child(["experiments.report", str(launch.folder)], {})
    return code


def _start_grid(arguments: Sequence[str], args: argparse.Namespace, config: DictConfig, found: Sweep | None) -> int:
    """Runs of a grid share the grid's name as their group, and its folder. It ends with a table of all of them."""
    if not args.multirun:
        return _hydra(arguments)
    place = grid.write(found, config) if found else grid.place(config, launching.STARTED)
    given = {override.key_or_group for override in parse(args.overrides)}
    group = {"tracking.group": place.name} if found and not config.tracking.group else {}
    own = {key: value for key, value in {"hydra.sweep.dir": str(place), **group}.items() if key not in given}
    code = _hydra([*arguments, *(f"{key}={quoted(value)}" for key, value in own.items())])
    if found:
        _child(["experiments.report", "--text", str(place)], {})
        print(f"\nas a page, with curves: python -m experiments.report {place}", flush=True)
    return code


def _hydra(arguments: Sequence[str]) -> int:
    sys.argv[1:] = arguments
    _hydra_app()
    failed = [*_failed, *launching.failures]
    for line in failed:
        print(f"turngrid: failed: {line}", file=sys.stderr)
    return 1 if failed else 0


def _of_sweep(launch: Launch, args: argparse.Namespace) -> list[str]:
    """Write the sweep's record; the command line with which Hydra finds it. What the runs are is in the record."""
    if launch.fresh:
        launch.put_aside()
    folder = record.write(launch.sweep, launch.output_dir, launch.whole)
    turngrid_sweeper.register()
    runs = [run.folder for run in launch.sweep.runs]
    own = [text for text in args.overrides if text.startswith(("hydra", "cluster"))]
    place = ["--config-dir", args.config_dir] if args.config_dir else []
    return ["--multirun", *place, *own, *turngrid_sweeper.arguments(folder, runs)]


def _composed(
    overrides: list[str], config_dir: str | None, whole: bool
) -> tuple[list[list[str]], list[DictConfig], tuple[str, ...]]:
    """Compose the runs, so that a typo is refused before any of them starts.

    Args:
        whole: all runs; else until every single override has been in one of them.

    Returns:
        Overrides and configs of the runs, and what shows Hydra all options that are not ours.
    """
    configs = []
    with composer(config_dir) as composed:
        runs = _grid(overrides) if whole else list(_covering(overrides))
        with composing_bar(len(runs)) as bar:
            for run in runs:
                configs.append(composed(run))
                bar.update()
    for config in configs:
        if problem := folders.unusable(config):  # Hydra itself makes folders there
            raise ConfigError(problem)
    chosen = parse([text for run in runs for text in run])
    return runs, configs, search_path([*places(parse(overrides)), *packages(chosen, config_dir)])


def _covering(overrides: list[str]) -> Iterator[list[str]]:
    """Runs of the sweep until every single override has been in one of them."""
    seen: set[str] = set()
    for run in _grid(overrides):
        if not run or not seen.issuperset(run):
            seen.update(run)
            yield run


def _grid(overrides: list[str]) -> list[list[str]]:
    """Every run's overrides."""
    parse(overrides)  # a one-line answer to what cannot be read
    parsed = OverridesParser.create(GlobalHydra.instance().config_loader()).parse_overrides(overrides)
    # Ranges of an optimiser's are left out: only its sweeper knows what they hold
    parsed = [override for override in parsed if not override.is_sweep_override() or override.is_discrete_sweep()]
    if idle := next((o for o in parsed if o.is_sweep_override() and not [*o.sweep_iterator()]), None):
        raise ConfigError(f"{idle.input_line} matches nothing: write the values out, as in {idle.key_or_group}=A,B")
    return [list(run) for run in itertools.product(*map(_choices, parsed))]


def _choices(override: Override) -> list[str]:
    """Return the overrides of single runs that one override stands for."""
    key = override.get_key_element()
    if override.is_sweep_override():
        return [f"{key}={value}" for value in override.sweep_string_iterator()]
    return [f"{key}={override.get_value_element_as_str()}"]


@hydra.main(version_base="1.3", config_path=str(base.CONF), config_name="config")
def _hydra_app(config: DictConfig) -> None:
    """One run of a multirun; also where Hydra hangs ``--info`` and its like."""
    settings = HydraConfig.get()
    overrides = list(settings.overrides.task)
    line = launching.label(overrides)
    print(f"\nturngrid: run {settings.job.num + 1}: {line}", file=sys.stderr, flush=True)
    elsewhere = not settings.launcher._target_.endswith("BasicLauncher")  # where another launcher of Hydra's has put us
    known = [f"{key}=" for key in launching.WATCHED if OmegaConf.select(config, key)]
    varied = " ".join(text for text in overrides if parse([text])[0].key_or_group in _varied)
    told = launching.watched([*overrides, *known], launching.STARTED, varied)
    code = _child(["train", *_own_folders(settings), *overrides, *told], {launching.LAUNCHED: "1"} if elsewhere else {})
    if code == 0:
        return
    if elsewhere:
        raise RunFailed(f"{line} ended with exit code {code}")
    _failed.append(f"{line} (exit code {code})")


def _own_folders(settings: DictConfig) -> tuple[str, ...]:
    """Where else the command line has Hydra look for options, of which a run's overrides tell nothing."""
    named = (source for source in settings.runtime.config_sources if "command-line" in source.provider)
    return search_path([f"{source.schema}://{source.path}" for source in named])


def _child(arguments: list[str], variables: dict[str, str]) -> int:
    """``-P`` and our root on ``PYTHONPATH``: modules of the folder that we are in must not stand in for ours."""
    command = [sys.executable, "-P", "-m", *arguments]
    return subprocess.run(command, check=False, env=child_variables(variables), preexec_fn=die_with_parent).returncode
