"""The RL stage: the composed config plus what only a run knows, handed to verl's trainer in a process of its own."""

from __future__ import annotations

import subprocess
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path

from omegaconf import DictConfig, OmegaConf, open_dict

from config import lora
from envs.games.catalogue import cache_root
from experiments.evaluation.stage import set_evaluation_aside
from experiments.stages.no_signal import NoSignal
from experiments.stages.rl_progress import Progress
from records.models.locate import resolve_model
from records.process.child import StageFailed
from records.process.variables import ahead_of_stage, run_stage
from records.resume import RlFolder, discard_beyond_checkpoint
from records.tracking.stage_run import StageRun
from tasks.budget import Allocation
from tasks.splits import task_file, validates

PROCESS = "verl_plugin.rl"


def ahead(config: DictConfig, folder: Path) -> AbstractContextManager[subprocess.Popen[bytes] | None]:
    """Start RL's process on CPUs, so that it imports while SFT trains; do nothing if SFT is done."""
    if (folder / "sft" / "model").exists() or config.trainer.device != "cpu":
        return nullcontext()
    return ahead_of_stage(config, folder, "rl", PROCESS)


def train(
    config: DictConfig,
    allocation: Allocation,
    folder: Path,
    model: str,
    process: subprocess.Popen[bytes] | None = None,
) -> Path:
    """Train from ``model``, going on from the last checkpoint if there is one; returns the last checkpoint's model.

    Args:
        process: one that ``ahead`` has started.

    Raises:
        StageFailed: the trainer's process ended badly, or too early.
    """
    rl = RlFolder(folder)
    done = discard_beyond_checkpoint(rl)
    rl.root.mkdir(parents=True, exist_ok=True)
    OmegaConf.save(rl_config(config, allocation, folder, model), rl.config)
    if done < allocation.steps:
        set_evaluation_aside(folder, "rl")
        prompts, samples = int(config.data.train_batch_size), int(config.actor_rollout_ref.rollout.n)
        with closing(Progress(rl, allocation.steps, done, prompts, samples, NoSignal.of(config))) as bar:
            run_stage(config, folder, "rl", PROCESS, [str(rl.config)], bar.update, process)
    if rl.saved_step() < allocation.steps:
        raise StageFailed(
            f"the trainer stopped after step {rl.saved_step()} of {allocation.steps}; see {folder / 'logs' / 'rl.log'}"
        )
    return rl.model(allocation.steps)


def rl_config(config: DictConfig, allocation: Allocation, folder: Path, model: str) -> DictConfig:
    """verl's config with this run's paths, seeds and length; a copy."""
    rl = RlFolder(folder)
    result = OmegaConf.create(OmegaConf.to_container(config, resolve=True))
    with open_dict(result):
        result.run = {"episodes": str(rl.episodes), "metrics": str(rl.metrics), "folder": str(folder)}
        result.run.groups, result.run.validation = str(rl.groups), str(rl.validation)
        result.run.tracking = StageRun.of(config, folder, "rl").node()
        result.actor_rollout_ref.model.path = model
        result.critic.model.path = model
        if teacher := OmegaConf.select(config, "algo.teacher"):
            result.actor_rollout_ref.teacher = resolve_model(str(teacher), cache_root())
        result.actor_rollout_ref.model.lora.merge = bool(config.model.lora_rank) and lora.merges(config)
        result.data.train_files = str(task_file(folder, "train"))
        result.data.val_files = str(task_file(folder, "validation" if validates(config) else "train"))  # verl wants one
        result.trainer.total_training_steps = allocation.steps
        result.trainer.total_epochs = _epochs(allocation, config)
        result.trainer.default_local_dir = str(rl.checkpoints)
        result.trainer.experiment_name = folder.name
        for node in (result.data, result.actor_rollout_ref.rollout):
            node.seed = config.seed
        for node in (result.actor_rollout_ref.actor, result.critic):
            node.data_loader_seed = config.seed
    return result


def _epochs(allocation: Allocation, config: DictConfig) -> int:
    """More passes over the games than the steps need: verl stops at whichever limit comes first. A pass has whole batches
    only, in an order of its own, so that what one leaves out others have."""
    batches = max(1, allocation.games // int(config.data.train_batch_size))
    return -(-allocation.steps // batches) + 1
