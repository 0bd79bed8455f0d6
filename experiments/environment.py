"""Environment variables of the stages' processes: threads, plugin, trackers."""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from experiments.provenance import first_started


def stage_environment(config: DictConfig, folder: Path, stage: str = "") -> dict[str, str]:
    """What verl, Ray, torch and the trackers read from the environment; ``stage`` where a tracker follows it.

    One torch thread a process on CPU, since processes share the cores; the trainer asks for more by itself.
    """
    variables = {
        "VERL_USE_EXTERNAL_MODULES": "verl_plugin",
        "TOKENIZERS_PARALLELISM": "false",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # Ray's default of 15 would let anything else on the machine go first
        "TENSORBOARD_DIR": str(folder / "tensorboard"),
        "WANDB_DIR": str(folder),
        "TURNGRID_SEED": str(config.seed),
    }
    if config.trainer.device == "cpu":
        variables |= {
            "VERL_PLATFORM": "cpu",
            "OMP_NUM_THREADS": "1",
            "OMP_WAIT_POLICY": "PASSIVE",  # idle threads sleep: spinning ones would starve whoever shares the core
            "TURNGRID_TRAINER_THREADS": str(OmegaConf.select(config, "cluster.trainer_threads", default=1)),
        }
    return variables | wandb_environment(config, folder, stage)


def wandb_environment(config: DictConfig, folder: Path, stage: str) -> dict[str, str]:
    """What verl does not hand to wandb.init: one wandb run a stage, the stages of a run (or a multirun) in one group.

    The id is the same after a kill, so that wandb goes on with the same run, and another after ``fresh=true``.
    """
    tracking = config.tracking
    variables = {"WANDB_RUN_GROUP": tracking.get("group") or folder.name, "WANDB_TAGS": ",".join(_tags(config))}
    if tracking.get("offline", False):
        variables["WANDB_MODE"] = "offline"
    if stage:
        identity = f"{folder.name}-{stage}-{first_started(folder)}"
        variables |= {"WANDB_JOB_TYPE": stage, "WANDB_RUN_ID": identity, "WANDB_RESUME": "allow"}
    return variables


def _tags(config: DictConfig) -> list[str]:
    """What a user filters by."""
    names = [OmegaConf.select(config, f"{node}.name") for node in ("env", "algo", "turn_reward", "budget", "model")]
    return [*filter(None, names), *config.tracking.get("tags", [])]
