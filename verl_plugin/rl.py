"""The RL stage's process: verl's V1 trainer from a config file that
``turngrid.experiments.stages.rl`` wrote.

    python -P -m verl_plugin.rl [CONFIG.yaml]

Without an argument it imports what it needs and then reads the argument from its standard input.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from turngrid.records.process.child import stage_exit_code
from turngrid.verl_plugin.servers import vllm_cpu
from turngrid.verl_plugin.training import start_watchdog


def main(config_file: Path) -> None:
    """Train with the config in a file."""
    config = OmegaConf.load(config_file)
    assert isinstance(config, DictConfig)
    vllm_cpu.settle(config)
    start_watchdog.begin(config.cluster.start_deadline_s)
    importlib.import_module("turngrid.verl_plugin.cpu.early_start").start(config)  # they import meanwhile
    importlib.import_module("turngrid.verl_plugin.training.task").train(config)


def argument_from_stdin() -> str:
    """Import what training needs, then wait for the argument."""
    importlib.import_module("turngrid.verl_plugin.training.task")
    line = sys.stdin.readline().rstrip("\n")
    return line or sys.exit("no config file was named")


if __name__ == "__main__":
    sys.exit(stage_exit_code(lambda: main(Path(sys.argv[1] if len(sys.argv) > 1 else argument_from_stdin()))))
