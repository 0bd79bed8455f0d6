"""The RL stage's process: verl's V1 trainer from a config file that ``experiments.stages.rl`` wrote.

    python -P -m verl_plugin.rl CONFIG.yaml

What takes long to start is started first.
"""

from __future__ import annotations

import sys
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from verl_plugin.cpu import quick_start
from verl_plugin.servers import vllm_cpu
from verl_plugin.training import start_watchdog


def main(config_file: Path) -> None:
    config = OmegaConf.load(config_file)
    assert isinstance(config, DictConfig)
    vllm_cpu.settle(config)
    with start_watchdog.begin(config.cluster.start_deadline_s):
        quick_start.leave_template(config)
    quick_start.begin(config)  # before verl's imports, where no template has made them
    from verl_plugin.training.task import train

    train(config)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
