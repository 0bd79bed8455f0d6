"""The stages' processes, and their environment variables: threads, plugin, where trackio keeps its dashboard."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from records.process.child import child, run_child

VLLM_ON_CPU = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # bound to a core, as is its way, its thread fights with whoever works there
    "TORCHDYNAMO_DISABLE": "1",  # else its sampler is compiled, which takes g++ and a path without a space
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
    """``run_child`` from the run's folder, with the stages' variables and ``variables``; its log is ``logs/LOG.log``."""
    place = folder / "logs" / f"{log}.log"
    told = {**stage_variables(config, folder), **variables}
    run_child(module, arguments, folder=folder, log=place, variables=told, on_poll=on_poll, ahead=ahead)


def ahead_of_stage(
    config: DictConfig, folder: Path, log: str, module: str
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """A process for ``run_stage`` that imports, while a block runs, what the stage will need."""
    place, told = folder / "logs" / f"{log}.log", stage_variables(config, folder)
    return child(module, [], folder=folder, log=place, variables=told, stdin=subprocess.PIPE)


def stage_variables(config: DictConfig, folder: Path) -> dict[str, str]:
    """What verl, Ray and torch read from the environment; trackers get theirs by ``records.tracking.stage_run``.

    One torch thread a process on CPU, since processes share the cores; the trainer asks for more by itself.
    """
    variables = {
        "VERL_USE_EXTERNAL_MODULES": "verl_plugin",
        "TOKENIZERS_PARALLELISM": "false",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # Ray's default of 15 would let anything else on the machine go first
        "TRACKIO_DIR": os.environ.get("TRACKIO_DIR") or str(folder.parent / "trackio"),  # one dashboard over all runs
        "TURNGRID_SEED": str(config.seed),
    }
    if config.trainer.device == "cpu":
        variables |= {
            "VERL_PLATFORM": "cpu",
            "OMP_NUM_THREADS": "1",
            "OMP_WAIT_POLICY": "PASSIVE",  # idle threads sleep: spinning ones would starve whoever shares the core
            "TURNGRID_TRAINER_THREADS": str(OmegaConf.select(config, "cluster.trainer_threads", default=1)),
        }
        variables |= VLLM_ON_CPU if OmegaConf.select(config, "actor_rollout_ref.rollout.name") == "vllm" else {}
    if "RAY_ADDRESS" not in os.environ:
        return variables
    # Workers of a Ray that was there before this process take their environment from its nodes: Ray hands them ours from here,
    # and verl's own settings win
    job = {"runtime_env": {"env_vars": variables}}
    return variables | {"RAY_JOB_CONFIG_JSON_ENV_VAR": json.dumps(job), "RAY_OVERRIDE_JOB_RUNTIME_ENV": "1"}
