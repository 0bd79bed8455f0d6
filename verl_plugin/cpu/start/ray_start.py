"""Starting a local Ray, on machines with much else to do too: Ray gives itself 30 s, which is no setting of its."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import psutil
import ray
from omegaconf import DictConfig, OmegaConf
from ray._private import ray_constants
from ray._private.node import Node

from verl_plugin.cpu.start import worker_start
from verl_plugin.replaced import replaced

TOO_SLOW = "timed out during startup"  # what Ray says then, as a bare Exception
ATTEMPTS = 3


def ray_settings(config: DictConfig, executable: str) -> dict[str, Any]:
    """Arguments of ``ray.init``: those of verl's ``ray_kwargs`` that are set, and an interpreter that a path with a space
    does not break: Ray writes it into a shell's command line as it is."""
    settings = OmegaConf.to_container(config.ray_kwargs.ray_init, resolve=True)
    assert isinstance(settings, dict)
    quoted = shlex.quote(executable)
    if quoted != executable:
        settings["runtime_env"] = {**(settings.get("runtime_env") or {}), "py_executable": quoted}
    return {str(key): value for key, value in settings.items() if value is not None}


def small_ray(**settings: Any) -> None:
    """``ray.init`` without two processes that a Ray on one machine has no use for: the autoscaler's monitor and, where nobody
    asks for the dashboard, its server. 125 MiB, 1.2 core-seconds, and Ray waits for the server. Its workers are copies of the
    template, where there is one."""
    with ExitStack() as without:
        without.enter_context(replaced(Node, "start_monitor", lambda node: None))
        if not settings.get("include_dashboard"):
            without.enter_context(replaced(Node, "start_api_server", lambda node, **_: None))
        if worker_start.VARIABLE in os.environ:
            without.enter_context(replaced(ray_constants, "SETUP_WORKER_FILENAME", worker_start.__file__))
        ray.init(**settings)


def start_ray(settings: Mapping[str, Any], init: Callable[..., Any] = small_ray) -> None:
    """Start Ray, again where it was too slow: at most ``ATTEMPTS`` times.

    Raises:
        Exception: Ray's own, when the last attempt failed, or for any other reason.
    """
    for attempt in range(1, ATTEMPTS + 1):
        already = _children()
        try:
            init(**settings)
            return
        except Exception as error:
            if TOO_SLOW not in str(error) or attempt == ATTEMPTS:
                raise
            print(
                f"Ray did not start in time (attempt {attempt} of {ATTEMPTS}); once more", file=sys.stderr, flush=True
            )
            _end(_children() - already)


def _children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def _end(processes: set[psutil.Process]) -> None:
    """What was half started would take the memory and the cores that the next attempt needs."""
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(list(processes), timeout=5)
