"""The SFT stage: verl's SFT trainer on the demonstration episodes, in a process of its own.

It starts from the beginning when it was killed half-way: on one core the tiny model takes seconds, and the paper's one
epoch over a hundred demonstrations takes minutes on a GPU, while a start from the beginning gives the same weights
without resting on any resume code.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from algorithms.registry import FORM
from envs.utils.bar import ticking_bar
from experiments.evaluation.stage import set_evaluation_aside
from records.files.manifest import seal
from records.metrics import read_metrics
from records.process.variables import run_stage
from records.tracking.stage_run import StageRun
from rollouts.chat_settings import chat_settings
from rollouts.prompt_forms.registry import non_default, prompt_form
from rollouts.store import read_episodes
from rollouts.window import rows_of, summed_up, window_of
from tasks import early_experience

ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}


def run(config: DictConfig, folder: Path, episodes_file: Path, model: str) -> Path:
    """Fine-tune ``model`` on the episodes and return the Hugging Face folder of the result.

    Does nothing where that folder is there already: it appears in one rename, whole.

    Args:
        config: the run's config; ``model.sft`` has ``lr``, ``epochs``, ``batch_size`` (episodes), ``weight_decay`` and
            ``tokens_per_pass`` (a forward pass).
        folder: the run folder; everything goes to its ``sft/`` and ``logs/sft.log``.
        episodes_file: the demonstrations, one Episode a line, with or without token ids.
        model: what to start from, a folder or a Hugging Face name.

    Raises:
        StageFailed: the trainer's process ended badly.
    """
    stage = folder / "sft"
    settings = sft_config(config, folder, episodes_file, model)
    if (stage / "model").exists():
        _complete(config, folder, settings)
        return stage / "model"
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(parents=True)
    set_evaluation_aside(folder, "sft")
    OmegaConf.save(settings, stage / "config.yaml")
    with _progress(stage, _steps(config.model.sft, settings.run)) as update:
        module, arguments = _launch(config)
        arguments.append(str(stage / "config.yaml"))
        run_stage(config, folder, "sft", module, arguments, update, PYTHONSAFEPATH="1", **ALONE)
    return _publish(stage)


def _complete(config: DictConfig, folder: Path, settings: DictConfig) -> None:
    """After damage: the record of how the model was made, and the ids of demonstrations that were played again."""
    file = folder / "sft" / "config.yaml"
    without_ids = not next(read_episodes(Path(settings.run.episodes))).prompt_ids
    if without_ids or not file.exists():
        OmegaConf.save(settings, file)
    if without_ids:
        run_stage(config, folder, "sft", "verl_plugin.demonstration_ids", [str(file)])


def sft_config(config: DictConfig, folder: Path, episodes_file: Path, model: str) -> DictConfig:
    """``run``: what ours needs to know; ``verl``: what is laid over verl's own SFT defaults.

    Model and engine settings are those of the RL actor, so that one model option serves both stages.
    """
    actor = config.actor_rollout_ref.actor
    context = int(config.data.max_prompt_length) + int(config.data.max_response_length)
    run_node = {
        "episodes": str(episodes_file),
        "metrics": str(folder / "sft" / "metrics.jsonl"),
        "max_tokens": context,
        "window_turns": OmegaConf.select(config, "env.window_turns"),
        "window_keep": OmegaConf.select(config, "env.window_keep"),
        **({"prompt": _plain(config.prompt)} if non_default(config.get("prompt")) else {}),
        **({FORM: _plain(config[FORM])} if summed_up(config.get(FORM)) else {}),
        **_experience(config, folder),
        "seed": int(config.seed),
        "template_kwargs": dict(chat_settings(config).kwargs),
        "tracking": StageRun.of(config, folder, "sft").node(),
    }
    verl_node = {
        "model": _model(config.actor_rollout_ref.model, model),
        "engine": {**_plain(actor.fsdp_config), "seed": run_node["seed"], "forward_only": False},
        "optim": {"lr": config.model.sft.lr, "weight_decay": config.model.sft.weight_decay},
        "data": _data(config, context),
        "checkpoint": {"save_contents": ["hf_model"]},
        "trainer": _trainer(config, folder),
    }
    return OmegaConf.create({"run": run_node, "verl": verl_node})


def _experience(config: DictConfig, folder: Path) -> dict[str, Any]:
    """Nothing where there are the demonstrations alone."""
    kind = early_experience.kind_of(config)
    return {"experience": {"kind": kind, "rows": str(early_experience.rows_file(folder))}} if kind else {}


def _model(settings: DictConfig, path: str) -> dict[str, Any]:
    keys = ["trust_remote_code", "override_config", "custom_chat_template"]
    keys += ["enable_gradient_checkpointing", "use_remove_padding"]
    keys += ["lora_rank", "lora_alpha", "target_modules"] if settings.lora_rank else []
    return {"path": path, **{key: value for key, value in _plain(settings).items() if key in keys}}


def _data(config: DictConfig, context: int) -> dict[str, Any]:
    return {
        "train_files": None,
        "train_batch_size": config.model.sft.batch_size,
        "max_token_len_per_gpu": max(int(config.model.sft.tokens_per_pass), context),
        "num_workers": 0,
    }


def _trainer(config: DictConfig, folder: Path) -> dict[str, Any]:
    return {
        "default_local_dir": str(folder / "sft" / "checkpoints"),
        "project_name": config.trainer.project_name,
        "experiment_name": f"{folder.name}-sft",
        "total_epochs": config.model.sft.epochs,
        "logger": [],  # those of run.tracking
        "resume_mode": "disable",
        "device": config.trainer.device,
        "nnodes": 1,
        "n_gpus_per_node": config.trainer.n_gpus_per_node,
    }


def _plain(node: DictConfig) -> dict[str, Any]:
    container = OmegaConf.to_container(node, resolve=True)
    assert isinstance(container, dict)
    return {str(key): value for key, value in container.items()}


def _launch(config: DictConfig) -> tuple[str, list[str]]:
    """One process on CPU and on one GPU; torchrun over the GPUs of this node where there are more."""
    ranks = 1 if config.trainer.device == "cpu" else int(config.trainer.n_gpus_per_node)
    if ranks == 1:
        return "verl_plugin.sft", []
    return "torch.distributed.run", ["--standalone", f"--nproc-per-node={ranks}", "-m", "verl_plugin.sft"]


def _steps(settings: DictConfig, run: DictConfig) -> int:
    window = window_of(run, prompt_form(run.get("prompt")), run.get(FORM))
    rows = sum(rows_of(len(episode.played_turns), window) for episode in read_episodes(Path(run.episodes)))
    if "experience" in run and run.experience.kind == early_experience.REFLECTION:
        rows += sum(1 for _ in read_episodes(Path(run.experience.rows)))
    return int(settings.epochs) * -(-rows // int(settings.batch_size))


@contextmanager
def _progress(stage: Path, steps: int) -> Iterator[Any]:
    """A bar that follows the metrics file of the trainer's process."""
    with ticking_bar(total=steps, desc="SFT", unit="step") as bar:

        def update() -> None:
            lines = list(read_metrics(stage / "metrics.jsonl"))
            if len(lines) > bar.n:
                bar.set_postfix_str(f"loss {lines[-1]['sft/loss']:.3f}")
                bar.update(len(lines) - bar.n)

        yield update


def _publish(stage: Path) -> Path:
    """Keep the model and its adapter, and let it appear under its name in one step."""
    (weights,) = (stage / "checkpoints").glob("global_step_*/huggingface")
    seal(weights)
    for adapter in (stage / "checkpoints").glob("global_step_*/lora_adapter"):
        adapter.replace(stage / "lora_adapter")
    weights.replace(stage / "model")
    shutil.rmtree(stage / "checkpoints")
    return stage / "model"
