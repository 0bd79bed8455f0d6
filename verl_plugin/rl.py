"""The RL stage's process: verl's V1 trainer, run from a config file of
``turngrid.experiments.stages.rl``.

    python -P -m verl_plugin.rl CONFIG.yaml [MODULE]

MODULE has the function ``train``; without it, it is ``turngrid.verl_plugin.training.task``.
"""

import importlib
import sys
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from turngrid.records.process.child import stage_exit_code
from turngrid.verl_plugin.servers import vllm_cpu
from turngrid.verl_plugin.training import watchdog

TASK = "turngrid.verl_plugin.training.task"


def main(config_file: Path, module: str = TASK) -> None:
    """Train with the config in a file."""
    config = OmegaConf.load(config_file)
    assert isinstance(config, DictConfig)
    vllm_cpu.settle(config)
    watchdog.current = watchdog.Watchdog(config.cluster.hung_factor, config.cluster.hung_after_s)
    watchdog.current.start(config.cluster.start_deadline_s)
    importlib.import_module("turngrid.verl_plugin.cpu.early_start").start(config)  # Ray's processes import meanwhile
    importlib.import_module(module).train(config)


if __name__ == "__main__":
    config_file, *module = sys.argv[1:]
    sys.exit(stage_exit_code(lambda: main(Path(config_file), *module)))
