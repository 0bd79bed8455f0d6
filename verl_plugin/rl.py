"""The RL stage's process: verl's V1 trainer.

    python -P -m turngrid.verl_plugin.rl CONFIG.yaml [MODULE]

``turngrid.experiments.stages.rl`` writes the config. MODULE has the function ``train``; by default
it is ``turngrid.verl_plugin.training.task``.
"""

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import ray
from omegaconf import DictConfig, OmegaConf

from turngrid.records.process.child import stage_exit_code
from turngrid.verl_plugin.ray_settings import ray_settings
from turngrid.verl_plugin.servers import vllm_cpu
from turngrid.verl_plugin.servers.transformers_server import launch
from turngrid.verl_plugin.training import watchdog

TASK = "turngrid.verl_plugin.training.task"
TOO_SLOW = "timed out during startup"  # Ray's message, in a bare Exception, after 30 s
ATTEMPTS = 3  # a loaded machine may need more than 30 s

_started: list[Any] = []  # Ray ends an actor without a handle


def main(config_file: Path, module: str = TASK) -> None:
    config = OmegaConf.load(config_file)
    assert isinstance(config, DictConfig)
    vllm_cpu.settle(config)
    watchdog.begin(config.cluster.hung_factor, config.cluster.hung_after_s).start(config.cluster.start_deadline_s)
    if config.trainer.device == "cpu":
        start_early(config)
    importlib.import_module(module).train(config)


def start_early(config: DictConfig) -> None:
    """Start Ray, then our rollout server beside this process's imports; verl starts both later."""
    os.environ["TRANSFER_QUEUE_ENABLE"] = "1"  # verl sets it through Ray's runtime environment
    start_ray(ray_settings(config, sys.executable))
    rollout = config.actor_rollout_ref.rollout
    if rollout.name == "transformers":
        _started.append(launch.start(0, config.actor_rollout_ref.model.path, rollout))


def start_ray(settings: Mapping[str, Any], init: Callable[..., Any] = ray.init) -> None:
    """Start Ray; if it is too slow, try up to ``ATTEMPTS`` times.

    The processes of a failed start are killed: they would take memory and cores from the next one.
    """
    driver = psutil.Process()
    for attempt in range(1, ATTEMPTS + 1):
        before = driver.children(recursive=True)
        try:
            init(**settings)
            return
        except Exception as error:
            if TOO_SLOW not in str(error) or attempt == ATTEMPTS:
                raise
            print(f"Ray did not start in time (attempt {attempt} of {ATTEMPTS})", file=sys.stderr, flush=True)
        failed = [process for process in driver.children(recursive=True) if process not in before]
        for process in failed:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(failed, timeout=5)


if __name__ == "__main__":
    config_file, *module = sys.argv[1:]
    sys.exit(stage_exit_code(lambda: main(Path(config_file), *module)))
