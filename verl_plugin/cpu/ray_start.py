"""Starts a local Ray, again if it was too slow: Ray gives itself 30 s, which a loaded machine may
exceed.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping
from typing import Any

import psutil
import ray
from omegaconf import DictConfig, OmegaConf

TOO_SLOW = "timed out during startup"  # Ray's message, in a bare Exception
ATTEMPTS = 3


def ray_settings(config: DictConfig, executable: str) -> dict[str, Any]:
    """Return the arguments of ``ray.init``: the values of verl's ``ray_kwargs.ray_init`` that are
    set.

    The interpreter is quoted if its path needs it: Ray puts it into a shell command as it is.
    """
    settings = OmegaConf.to_container(config.ray_kwargs.ray_init, resolve=True)
    assert isinstance(settings, dict)
    quoted = shlex.quote(executable)
    if quoted != executable:
        settings["runtime_env"] = {**(settings.get("runtime_env") or {}), "py_executable": quoted}
    return {str(key): value for key, value in settings.items() if value is not None}


def start_ray(settings: Mapping[str, Any], init: Callable[..., Any] = ray.init) -> None:
    """Start Ray, up to ``ATTEMPTS`` times if it is too slow.

    Raises:
        Exception: Ray's own, after the last attempt or for any other reason.
    """
    for attempt in range(1, ATTEMPTS + 1):
        before = _children()
        try:
            init(**settings)
            return
        except Exception as error:
            if TOO_SLOW not in str(error) or attempt == ATTEMPTS:
                raise
            print(f"Ray did not start in time (attempt {attempt} of {ATTEMPTS})", file=sys.stderr, flush=True)
            _kill(_children() - before)


def _children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def _kill(processes: set[psutil.Process]) -> None:
    """End what was half started, which would take memory and cores from the next attempt."""
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(list(processes), timeout=5)
