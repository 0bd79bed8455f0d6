"""The stages' processes and their environment variables."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from turngrid.records.process.child import child, run_child

VLLM_ON_CPU = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # the default binds a thread to a core that other processes use
    "TORCHDYNAMO_DISABLE": "1",  # otherwise the sampler is compiled, which needs g++ and a path without a space
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
}


def run_stage(
    config: DictConfig,
    folder: Path,
    log: str,
    module: str,
    arguments: Sequence[str],
    on_poll: Callable[[], None] = lambda: None,
    ahead: subprocess.Popen[bytes] | None = None,
    **variables: str,
) -> None:
    """Call ``run_child`` in the run's folder with stage variables; log to ``logs/LOG.log``."""
    file = folder / "logs" / f"{log}.log"
    own = {**stage_variables(config, folder), **variables}
    run_child(module, arguments, folder=folder, log=file, variables=own, on_poll=on_poll, ahead=ahead)


def ahead_of_stage(
    config: DictConfig, folder: Path, log: str, module: str
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Start a process for ``run_stage`` that imports the stage's modules while a block runs."""
    file = folder / "logs" / f"{log}.log"
    return child(module, [], folder=folder, log=file, variables=stage_variables(config, folder), stdin=subprocess.PIPE)


def stage_variables(config: DictConfig, folder: Path) -> dict[str, str]:
    """Return the environment variables that verl, Ray and torch read.

    On CPUs a process has one torch thread, since processes share cores; the trainer has more.
    """
    variables = {
        "VERL_USE_EXTERNAL_MODULES": "turngrid.verl_plugin",
        "TOKENIZERS_PARALLELISM": "false",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # Ray's default niceness of 15 yields to any other process
        "TRACKIO_DIR": os.environ.get("TRACKIO_DIR") or str(folder.parent / "trackio"),  # one dashboard over all runs
        "TURNGRID_SEED": str(config.seed),
    }
    if config.trainer.device == "cpu":
        variables |= {
            "VERL_PLATFORM": "cpu",
            "OMP_NUM_THREADS": "1",
            "OMP_WAIT_POLICY": "PASSIVE",  # idle threads sleep: spinning ones would starve others on the core
            "TURNGRID_TRAINER_THREADS": str(OmegaConf.select(config, "cluster.trainer_threads", default=1)),
        }
        variables |= VLLM_ON_CPU if OmegaConf.select(config, "actor_rollout_ref.rollout.name") == "vllm" else {}
    if "RAY_ADDRESS" not in os.environ:
        return variables
    # Workers of an existing Ray cluster have its nodes' environment; Ray passes ours on from here.
    # verl's own settings win.
    job = {"runtime_env": {"env_vars": variables}}
    return variables | {"RAY_JOB_CONFIG_JSON_ENV_VAR": json.dumps(job), "RAY_OVERRIDE_JOB_RUNTIME_ENV": "1"}
