"""The evaluation stage: every checkpoint plays the same held-out games."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from omegaconf import DictConfig, OmegaConf, open_dict
from tqdm import tqdm

from envs.utils.bar import ticking_bar
from records.damage import discard
from records.process.exit_codes import say
from records.process.variables import run_stage
from records.tracking.stage_run import StageRun
from rollouts.chat_settings import ChatSettings, chat_settings
from rollouts.episode import Episode
from rollouts.store import read_episodes
from tasks.evaluation_sets import EvaluationSetting, env_node, evaluation_settings


@dataclass(frozen=True)
class Checkpoint:
    """A model to be evaluated: the stage that made it, where it lies (a folder or a Hugging Face name), and how messages are
    rendered for it; None: as the config says."""

    name: str
    path: str
    chat: ChatSettings | None = None


def episodes_file(folder: Path, name: str, label: str = "") -> Path:
    """``evaluation/NAME.jsonl`` for the first setting, ``evaluation/LABEL/NAME.jsonl`` for the others."""
    return folder / "evaluation" / label / f"{name}.jsonl"


def evaluate(config: DictConfig, folder: Path, checkpoints: Sequence[Checkpoint], tracked: bool = False) -> None:
    """Play each setting with each checkpoint that has not played it yet; ``tracked``: and tell the run's trackers.

    Raises:
        StageFailed: the evaluation's process ended badly.
    """
    todo = evaluation_settings(config, folder)
    left = sum(missing_episodes(folder, checkpoint.name, item) for checkpoint in checkpoints for item in todo)
    run = StageRun.of(config, folder, "evaluation") if tracked else None
    if not left and (run is None or run.is_logged()):
        return
    path = folder / "evaluation" / "config.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    OmegaConf.save(_config(config, folder, checkpoints, todo, run), path)
    progress_file(folder).unlink(missing_ok=True)  # a killed evaluation's
    with ticking_bar(total=left, desc="evaluation", unit="game") as bar:
        update = partial(_show, bar, folder)
        run_stage(config, folder, "evaluation", "experiments.evaluation.process", [str(path)], update)
    progress_file(folder).unlink(missing_ok=True)


def missing_episodes(folder: Path, name: str, item: EvaluationSetting) -> int:
    """Games, each counted as often as it is played, that a policy still has to play in a setting."""
    return 0 if episodes_file(folder, name, item.label).exists() else item.evaluation_set.games * item.samples_per_game


def set_evaluation_aside(folder: Path, name: str) -> None:
    """A model that is being made (again) was never evaluated: what another one under its name played is set aside."""
    for file in sorted((folder / "evaluation").rglob(f"{name}.jsonl")):
        place = discard(folder, file).relative_to(folder)
        say(
            f"note: {file.relative_to(folder)} is of an earlier model; it is evaluated again, and the file moved to {place}"
        )


def progress_file(folder: Path) -> Path:
    return folder / "evaluation" / ".progress"


def _show(bar: tqdm, folder: Path) -> None:
    with suppress(FileNotFoundError, ValueError):  # not there yet, or being written
        bar.update(max(0, int(progress_file(folder).read_text()) - bar.n))


def _config(
    config: DictConfig,
    folder: Path,
    checkpoints: Sequence[Checkpoint],
    todo: Sequence[EvaluationSetting],
    run: StageRun | None,
) -> DictConfig:
    result = OmegaConf.create(OmegaConf.to_container(config, resolve=True))
    assert isinstance(result, DictConfig)
    with open_dict(result):
        result.run = {
            "folder": str(folder),
            "policies": [
                {**asdict(checkpoint), "chat": asdict(checkpoint.chat or chat_settings(config))}
                for checkpoint in checkpoints
            ],
            "settings": [{**asdict(item), "env": env_node(config, item.evaluation_set.env)} for item in todo],
            "device": config.trainer.device,
            "servers": through_servers(config),
            "tracking": run.node() if run and run.trackers else None,
        }
    return result


def through_servers(config: DictConfig) -> bool:
    """Whether checkpoints play through rollout servers: unless said, where the run's are vLLM's on GPUs."""
    if config.eval.servers is not None:
        return bool(config.eval.servers)
    return bool(config.trainer.device == "cuda" and config.actor_rollout_ref.rollout.name == "vllm")


def played(folder: Path, name: str, label: str = "") -> list[Episode]:
    return list(read_episodes(episodes_file(folder, name, label)))
