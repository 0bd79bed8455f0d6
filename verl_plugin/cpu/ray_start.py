"""Start a local Ray, and retry if it was too slow: Ray allows itself 30 s, too little on a loaded
machine.
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
    """Return the arguments of ``ray.init``: the non-null values of verl's ``ray_kwargs.ray_init``.

    The interpreter's path is quoted if needed, since Ray inserts it into a shell command.
    """
    settings = OmegaConf.to_container(config.ray_kwargs.ray_init, resolve=True)
    assert isinstance(settings, dict)
    quoted = shlex.quote(executable)
    if quoted != executable:
        settings["runtime_env"] = {**(settings.get("runtime_env") or {}), "py_executable": quoted}
    return {str(key): value for key, value in settings.items() if value is not None}


def start_ray(settings: Mapping[str, Any], init: Callable[..., Any] = ray.init) -> None:
    """Start Ray; if it is too slow, try up to ``ATTEMPTS`` times.

    Raises:
        Exception: Ray's exception, after the last attempt or for any other reason.
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
    """Kill the processes of a failed start, which would take memory and cores from the next
    attempt.
    """
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(list(processes), timeout=5)
