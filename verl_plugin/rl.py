"""The RL stage's process: verl's V1 trainer from a config file that ``experiments.stages.rl`` wrote.

    python -P -m verl_plugin.rl [CONFIG.yaml]

What takes long to start is started first. Without an argument, on a CPU, it imports, and then reads the argument from its standard
input.
"""

from __future__ import annotations

import sys
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from records.process.child import stage_exit_code
from verl_plugin.cpu import quick_start
from verl_plugin.servers import vllm_cpu
from verl_plugin.training import start_watchdog


def main(config_file: Path) -> None:
    config = OmegaConf.load(config_file)
    assert isinstance(config, DictConfig)
    vllm_cpu.settle(config)
    with start_watchdog.begin(config.cluster.start_deadline_s):
        if quick_start.has_template(config):
            quick_start.leave_template()
    quick_start.begin(config)  # before verl's imports, where no template has made them
    from verl_plugin.training.task import train

    train(config)


def told() -> str:
    """The argument, once it is known."""
    quick_start.leave_template()
    line = sys.stdin.readline().rstrip("\n")
    return line or sys.exit("no config file was named")


if __name__ == "__main__":
    sys.exit(stage_exit_code(lambda: main(Path(sys.argv[1] if len(sys.argv) > 1 else told()))))
