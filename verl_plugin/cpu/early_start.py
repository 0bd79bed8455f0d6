"""Start Ray and the rollout server on a CPU while the driver imports; verl would do it later."""

import importlib
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import psutil
import ray
from omegaconf import DictConfig, OmegaConf

TOO_SLOW = "timed out during startup"  # Ray's message, in a bare Exception, after 30 s
ATTEMPTS = 3  # a loaded machine may need more than 30 s

_started: list[Any] = []  # Ray ends an actor without a handle


def start(config: DictConfig) -> None:
    """Start a local Ray and the rollout server. On GPUs, do nothing: verl starts its own Ray."""
    if config.trainer.device != "cpu":
        return
    os.environ["TRANSFER_QUEUE_ENABLE"] = "1"  # verl sets it through Ray's runtime environment
    start_ray(ray_settings(config, sys.executable))
    rollout = config.actor_rollout_ref.rollout
    if rollout.name == "transformers":
        launch = importlib.import_module("turngrid.verl_plugin.servers.transformers_server.launch")
        _started.append(launch.start(0, config.actor_rollout_ref.model.path, rollout))


def ray_settings(config: DictConfig, executable: str) -> dict[str, Any]:
    """Return the arguments of ``ray.init``: the non-null values of verl's ``ray_kwargs.ray_init``.

    The interpreter's path is quoted if needed, since Ray inserts it into a shell command.
    """
    settings: Any = OmegaConf.to_container(config.ray_kwargs.ray_init, resolve=True)
    quoted = shlex.quote(executable)
    if quoted != executable:
        settings["runtime_env"] = {**(settings.get("runtime_env") or {}), "py_executable": quoted}
    return {key: value for key, value in settings.items() if value is not None}


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
