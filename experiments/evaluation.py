"""The evaluation stage: every checkpoint of the run plays the same held-out games, once each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig, OmegaConf, open_dict
from tqdm import tqdm

from experiments.child import run_child
from experiments.environment import stage_environment
from experiments.tasks import task_file
from rollouts.episode import Episode
from rollouts.store import read_episodes


@dataclass(frozen=True)
class Checkpoint:
    """A model to be evaluated: the stage that made it and where it lies (a folder or a Hugging Face name)."""

    name: str
    path: str


def episodes_file(folder: Path, name: str) -> Path:
    return folder / "evaluation" / f"{name}.jsonl"


def evaluate(config: DictConfig, folder: Path, checkpoints: list[Checkpoint]) -> None:
    """Play the test panel with each checkpoint that has not played it yet.

    Raises:
        StageFailed: the evaluation's process ended badly.
    """
    missing = [checkpoint for checkpoint in checkpoints if not episodes_file(folder, checkpoint.name).exists()]
    if not missing:
        return
    path = folder / "evaluation" / "config.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    OmegaConf.save(_config(config, folder, missing), path)
    with tqdm(total=len(missing), desc=f"evaluation, {config.eval.games} games each", unit="model") as bar:
        run_child(
            "verl_plugin.evaluate",
            [str(path)],
            folder=folder,
            log=folder / "logs" / "evaluation.log",
            environment=stage_environment(config, folder),
            on_poll=lambda: bar.update(_finished(folder, missing) - bar.n),
        )


def _finished(folder: Path, checkpoints: list[Checkpoint]) -> int:
    return sum(episodes_file(folder, checkpoint.name).exists() for checkpoint in checkpoints)


def _config(config: DictConfig, folder: Path, checkpoints: list[Checkpoint]) -> DictConfig:
    result = OmegaConf.create(OmegaConf.to_container(config, resolve=True))
    with open_dict(result):
        result.run = {
            "panel": str(task_file(folder, "test")),
            "players": [{"name": checkpoint.name, "path": checkpoint.path} for checkpoint in checkpoints],
            "episodes": str(folder / "evaluation"),
            "device": config.trainer.device,
        }
    return result


def played(folder: Path, name: str) -> list[Episode]:
    return list(read_episodes(episodes_file(folder, name)))
