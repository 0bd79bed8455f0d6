"""``python -m train`` and ``turngrid-train``: compose, check, hold the run's folder, run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from experiments.exit_codes import exit_code, say
from experiments.run_folder import open_run
from train import launching, machine
from train.arguments import parsed
from train.compose import compose
from train.errors import ConfigError
from train.help import help_text
from train.refusals import check


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code; every foreseen error is one line on stderr."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    return exit_code(lambda: _dispatch(given))


def _dispatch(arguments: list[str]) -> int:
    args = parsed(arguments)
    if args.config_name or args.config_path:
        raise ConfigError("--config-name and --config-path would drop verl's tree; use recipe=NAME or --config-dir")
    if args.help:
        print(help_text())
        return 0
    if args.multirun or args.info or args.hydra_help or args.shell_completion or args.cfg in ("hydra", "all"):
        from train import multirun

        return multirun.main(arguments, args)
    config = compose(args.overrides, args.config_dir)
    if args.cfg:
        print(_shown(config, args.package, args.resolve), end="")
        return 0
    if launching.elsewhere(config):
        return _launch(config, arguments)
    return run(config)


def _launch(config: DictConfig, arguments: list[str]) -> int:
    """One run, by the same door as several."""
    from train import multirun

    check(config)
    arguments = ["--multirun", *arguments]
    return multirun.main(arguments, parsed(arguments))


def _shown(config: DictConfig, package: str | None, resolve: bool) -> str:
    node = OmegaConf.select(config, package) if package else config
    if not OmegaConf.is_config(node):
        raise ConfigError(f"--package {package}: no such node")
    return OmegaConf.to_yaml(node, resolve=resolve)


def run(config: DictConfig) -> int:
    """Check the config, run what its folder does not hold yet, print the closing table."""
    for warning in check(config):
        say(f"note: {warning}")
    if config.plan or config.plan_gpu:
        return _plan(config)
    machine.check(config)
    with open_run(config, Path(config.output_dir).expanduser()) as folder:
        for note in folder.notes:
            say(f"note: {note}")
        print(_finish(config, folder.path), flush=True)
    return 0


def _plan(config: DictConfig) -> int:
    """Print what the run would need; refuse what cannot fit. No run folder is made."""
    from experiments import plan

    report = plan.make(config, say)
    print(report.text, flush=True)
    if report.problems:
        raise ConfigError(f"this does not fit: {'; '.join(report.problems)}")
    return 0


def _finish(config: DictConfig, folder: Path) -> str:
    from experiments.result import RunResult  # scipy and matplotlib: not before they are needed
    from experiments.table import closing_table

    result = RunResult.read(folder)
    if result is not None:
        say("this run is finished; fresh=true starts it anew")
        return closing_table(result)
    from experiments import calibrate, pipeline

    say(f"run folder {folder}")
    result = pipeline.run(config, folder)
    calibrate.learn(config, folder)
    return closing_table(result)
