"""A stage's process: its environment variables, its log, and its run in trackers."""

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from omegaconf import OmegaConf

from turngrid.envs.games.cache import cache_root
from turngrid.envs.utils import stacks
from turngrid.records.process.child import VLLM_ON_CPU, run_child
from turngrid.records.provenance import ATTEMPTS, last_attempt, read_attempts
from turngrid.records.run_folder import trains_rl
from turngrid.records.tracking import ID_LETTERS, TAG_LETTERS, TRACKERS, StageRun
from turngrid.tasks.run import Run

# Loops of a thread that waits for another before it sleeps. With two threads SmolLM2 samples faster
# than if they sleep at once; longer loops starve other processes (benchmarks/two_threads.py)
GOMP_SPINCOUNT = "3000"
SHOWN_NODES = ("env", "algo", "turn_reward", "budget", "model")  # whose names are tags


def run_stage(
    run: Run,
    log: str,
    module: str,
    arguments: Sequence[str],
    on_poll: Callable[[], None] = lambda: None,
    **variables: str,
) -> None:
    """Call ``run_child`` in the run's folder with stage variables; log to ``logs/LOG.log``."""
    file, own = run.folder / "logs" / f"{log}.log", {**stage_variables(run), **variables}
    run_child(module, arguments, folder=run.folder, log=file, variables=own, on_poll=on_poll)


def stage_variables(run: Run) -> dict[str, str]:
    """Return the environment variables that verl, Ray and torch read.

    On CPUs a process has one torch thread, since processes share cores; the trainer and the rollout
    server may have more.
    """
    config, folder = run.config, run.folder
    variables = {
        "VERL_USE_EXTERNAL_MODULES": "turngrid.verl_plugin",
        "TOKENIZERS_PARALLELISM": "false",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # Ray's default niceness of 15 yields to any other process
        "TRACKIO_DIR": os.environ.get("TRACKIO_DIR") or str(folder.parent / "trackio"),  # one dashboard over all runs
        "TURNGRID_CACHE": str(cache_root()),  # absolute, since a stage works in the run's folder
        "TURNGRID_SEED": str(config.seed),
        stacks.FOLDER: str(folder / "logs" / "stacks"),
    }
    if config.trainer.device == "cpu":
        variables |= {
            "VERL_PLATFORM": "cpu",
            "OMP_NUM_THREADS": "1",
            "OMP_WAIT_POLICY": "PASSIVE",  # idle threads sleep: spinning ones would starve others on the core
            "GOMP_SPINCOUNT": GOMP_SPINCOUNT,
            "TURNGRID_TRAINER_THREADS": str(run.cluster.trainer_threads),
            "TURNGRID_ROLLOUT_THREADS": str(run.cluster.rollout_threads),
        }
        variables |= VLLM_ON_CPU if OmegaConf.select(config, "actor_rollout_ref.rollout.name") == "vllm" else {}
    # Ray calls the hook in each worker, those of verl's queue too. Workers of an existing cluster
    # have its nodes' environment; Ray passes ours on from here. verl's own settings win.
    runtime_env: dict[str, Any] = {"worker_process_setup_hook": f"{stacks.__name__}.{stacks.register.__name__}"}
    if "RAY_ADDRESS" in os.environ:
        runtime_env["env_vars"] = dict(variables)
    job = json.dumps({"runtime_env": runtime_env})
    return variables | {"RAY_JOB_CONFIG_JSON_ENV_VAR": job, "RAY_OVERRIDE_JOB_RUNTIME_ENV": "1"}


def tracked(run: Run, stage: str) -> StageRun:
    """Return the stage as a run in trackers."""
    tracking, trainer, folder = run.tracking, run.config.trainer, run.folder
    attempts = read_attempts(folder / ATTEMPTS)
    return StageRun(
        folder=str(folder),
        stage=stage,
        project=str(trainer.project_name),
        name=tracking.run_name or folder.name,
        group=tracking.group or folder.name,
        id=f"{folder.name[-ID_LETTERS:]}-{int(attempts[0].started) if attempts else 0}",
        tags=_tags(run),
        trackers=[name for name in trainer.logger if name in TRACKERS],
        offline=tracking.offline,
    )


def _tags(run: Run) -> list[str]:
    shown = [node for node in SHOWN_NODES if node != "algo" or trains_rl(run.config)]
    names = [OmegaConf.select(run.config, f"{node}.name") for node in shown]
    curriculum = run.curriculum.name
    attempt = last_attempt(run.folder)
    commit = attempt.commit[:10] if attempt and attempt.commit else ""
    tags = [*names, curriculum if curriculum != "none" else "", commit, *run.tracking.tags]
    return list(dict.fromkeys(str(tag)[:TAG_LETTERS] for tag in tags if tag))
