"""``python -m train`` and ``turngrid-train``: compose, check, hold the run's folder, run."""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from turngrid.config import machine, precision
from turngrid.config.checks.check import check
from turngrid.config.compose import compose
from turngrid.config.errors import ConfigError
from turngrid.envs.types import TaskError
from turngrid.records.process.exit_codes import Refusal, exit_code, say
from turngrid.records.run_folder import open_run
from turngrid.tasks.run import Run
from turngrid.train.arguments import help_text, parsed
from turngrid.train.launch import launching

Start = Callable[[], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code; every foreseen error is one line on stderr."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    return exit_code(lambda: ready(given)())


def ready(arguments: Sequence[str]) -> Start:
    """Parse, compose and check a command line; return the function that starts it.

    Before that function is called, nothing is started or written; only notes are printed to stderr.

    Raises:
        Refusal, TaskError: the command line is refused, in one line.
    """
    args = parsed(arguments)
    if args.help:
        return lambda: _print(help_text())
    if args.multirun or args.shell_completion:
        return _several(arguments, args)
    config = compose(args.overrides, args.config_dir)
    if args.cfg:
        text = _shown(config, args.package, args.resolve)
        try:
            check(config)
        except (Refusal, TaskError) as error:
            say(f"note: this config is only shown; a run of it is refused: {error}")
        return lambda: _print(text, end="")
    if launching.elsewhere(config) or config.dry_run:
        _say_notes(config)
        arguments = ["--multirun", *arguments]  # a sweep of one run is started and listed like any other
        return _several(arguments, parsed(arguments))
    return _one(config, args.overrides)


def _print(text: str, end: str = "\n") -> int:
    print(text, end=end)
    return 0


def _several(arguments: Sequence[str], args: argparse.Namespace) -> Start:
    from turngrid.train.launch import multirun

    return multirun.ready(arguments, args)


def _shown(config: DictConfig, package: str | None, resolve: bool) -> str:
    read = package is None or re.fullmatch(r"\w+(\.\w+)*", package)  # OmegaConf reads "env[" as env
    node = config if package is None else OmegaConf.select(config, package) if read else None
    if not OmegaConf.is_config(node):
        raise ConfigError(f"--package {package}: no such node")
    return OmegaConf.to_yaml(node, resolve=resolve)


def _say_notes(config: DictConfig) -> None:
    for warning in check(config):
        say(f"note: {warning}")


def _one(config: DictConfig, overrides: Sequence[str]) -> Start:
    _say_notes(config)
    if config.estimate or config.estimate_gpu:
        return lambda: _plan(Run(config))
    from turngrid.experiments.cost_estimate import estimate

    machine.check(config)
    estimate.check(Run(config), say)
    return lambda: run(config, overrides)


def run(config: DictConfig, overrides: Sequence[str]) -> int:
    """Run the stages whose results are missing in the run's folder, and print the run summary.

    The config must have been checked.
    """
    with open_run(config, Path(config.output_dir).expanduser(), overrides) as folder:
        print(_finish(Run(config, folder)), flush=True)
    return 0


def _plan(run: Run) -> int:
    """Print the cost estimate; refuse a run that does not fit. No run folder is made."""
    from turngrid.experiments.cost_estimate import estimate

    text, reasons = estimate.make(run)
    print(text, flush=True)
    if reasons:
        raise estimate.does_not_fit(reasons)
    return 0


def _finish(run: Run) -> str:
    from turngrid.experiments.evaluation.result import RunResult  # imports numpy, so only when needed
    from turngrid.experiments.evaluation.tables import summary_table

    result = RunResult.read(run.folder)
    if result is not None:
        say("this run is finished; fresh=true starts it anew")
        return summary_table(result)
    from turngrid.experiments.cost_estimate import amounts
    from turngrid.experiments.stages import pipeline

    say(f"run folder {run.folder}")
    if line := precision.explained(run.config):
        say(line)
    result = pipeline.execute(run)
    amounts.record(run)
    return summary_table(result)
