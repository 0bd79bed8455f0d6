"""The SFT stage: verl's SFT trainer on the demonstration episodes, in a process of its own.

A killed SFT stage starts from the beginning, which gives the same weights without any resume code.
On one core the tiny model takes seconds; the paper's epoch over a hundred demonstrations minutes on
a GPU.
"""

import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from turngrid.algorithms.registry import FORM
from turngrid.config.machine import SMALL
from turngrid.envs.utils.bar import ticking_bar
from turngrid.experiments.evaluation.stage import set_evaluation_aside
from turngrid.records.files.checkpoints import seal
from turngrid.records.metrics import read_metrics
from turngrid.records.process.child import run_stage
from turngrid.rollouts.prompt_forms.registry import non_default
from turngrid.rollouts.store import read_episodes
from turngrid.rollouts.window import rows_of, summed_up
from turngrid.tasks import early_experience
from turngrid.tasks.run import Run

ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}


def train(run: Run, episodes_file: Path, model: str) -> Path:
    """Fine-tune ``model`` on the episodes and return the Hugging Face folder of the result.

    Do nothing if that folder exists: it appears in one rename.

    Raises:
        StageFailed: the trainer's process failed.
    """
    stage, config = run.folder / "sft", run.config
    if (stage / "model").exists():
        return stage / "model"
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(parents=True)
    set_evaluation_aside(run.folder, "sft")
    OmegaConf.save(sft_config(run, episodes_file, model), stage / "config.yaml")
    variables = {"PYTHONSAFEPATH": "1", **ALONE, **allocator(config)}
    module, arguments = _launch(config)
    with ticking_bar(total=_steps(run, episodes_file), desc="SFT", unit="step") as bar:

        def update() -> None:
            lines = list(read_metrics(stage / "metrics.jsonl"))
            if len(lines) > bar.n:
                bar.set_postfix_str(f"loss {lines[-1]['sft/loss']:.3f}")
                bar.update(len(lines) - bar.n)

        run_stage(config, run.folder, "sft", module, [*arguments, str(stage / "config.yaml")], update, **variables)
    return _publish(stage)


def allocator(config: DictConfig) -> dict[str, str]:
    """Return torch's setting against fragmented memory on small cards, unless the user has one.

    RL needs none: verl 0.9.1 makes it in the trainer's process after each transfer of weights.
    """
    small = config.trainer.device == "cuda" and config.cluster.gpu_memory_gb < SMALL
    return {ALLOCATOR: "expandable_segments:True"} if small and ALLOCATOR not in os.environ else {}


def sft_config(run: Run, episodes_file: Path, model: str) -> DictConfig:
    """Return the config of the stage's process: ``run`` is ours, ``verl`` over verl's defaults.

    Model and engine settings are those of the RL actor, so one model option applies to both stages.
    """
    config = run.config
    actor = config.actor_rollout_ref.actor
    context = int(config.data.max_prompt_length) + int(config.data.max_response_length)
    kind = early_experience.kind_of(config)
    run_node = {
        "episodes": str(episodes_file),
        "metrics": str(run.folder / "sft" / "metrics.jsonl"),
        "max_tokens": context,
        "window_turns": OmegaConf.select(config, "env.window_turns"),
        "window_keep": OmegaConf.select(config, "env.window_keep"),
        **({"prompt": _plain(config.prompt)} if non_default(config.get("prompt")) else {}),
        **({FORM: _plain(config[FORM])} if summed_up(config.get(FORM)) else {}),
        **({"experience": {"kind": kind, "rows": str(early_experience.rows_file(run.folder))}} if kind else {}),
        "seed": int(config.seed),
        "hung_factor": float(config.cluster.hung_factor),
        "hung_after_s": float(config.cluster.hung_after_s),
        "template_kwargs": dict(run.chat.kwargs),
        "tracking": asdict(run.tracked("sft")),
    }
    verl_node = {
        "model": _model(config.actor_rollout_ref.model, model),
        "engine": {**_plain(actor.fsdp_config), "seed": run_node["seed"], "forward_only": False},
        "optim": {"lr": config.model.sft.lr, "weight_decay": config.model.sft.weight_decay},
        "data": {
            "train_files": None,
            "train_batch_size": config.model.sft.batch_size,
            "max_token_len_per_gpu": max(int(config.model.sft.tokens_per_pass), context),
            "num_workers": 0,
        },
        "checkpoint": {"save_contents": ["hf_model"]},
        "trainer": {
            "default_local_dir": str(run.folder / "sft" / "checkpoints"),
            "project_name": config.trainer.project_name,
            "experiment_name": f"{run.folder.name}-sft",
            "total_epochs": config.model.sft.epochs,
            "logger": [],  # those of run.tracking
            "resume_mode": "disable",
            "device": config.trainer.device,
            "nnodes": 1,
            "n_gpus_per_node": config.trainer.n_gpus_per_node,
        },
    }
    return OmegaConf.create({"run": run_node, "verl": verl_node})


def _model(settings: DictConfig, path: str) -> dict[str, Any]:
    keys = ["trust_remote_code", "override_config", "custom_chat_template"]
    keys += ["enable_gradient_checkpointing", "use_remove_padding", "use_fused_kernels"]
    keys += ["lora_rank", "lora_alpha", "target_modules"] if settings.lora_rank else []
    return {"path": path, **{key: value for key, value in _plain(settings).items() if key in keys}}


def _plain(node: DictConfig) -> dict[str, Any]:
    container = OmegaConf.to_container(node, resolve=True)
    assert isinstance(container, dict)
    return {str(key): value for key, value in container.items()}


def _launch(config: DictConfig) -> tuple[str, list[str]]:
    """Return the module and its arguments: torchrun if this node has several GPUs."""
    ranks = 1 if config.trainer.device == "cpu" else int(config.trainer.n_gpus_per_node)
    if ranks == 1:
        return "turngrid.verl_plugin.sft", []
    return "torch.distributed.run", ["--standalone", f"--nproc-per-node={ranks}", "-m", "turngrid.verl_plugin.sft"]


def _steps(run: Run, episodes_file: Path) -> int:
    rows = sum(rows_of(len(episode.played_turns), run.window) for episode in read_episodes(episodes_file))
    if early_experience.kind_of(run.config) == early_experience.REFLECTION:
        rows += sum(1 for _ in read_episodes(early_experience.rows_file(run.folder)))
    settings = run.config.model.sft
    return int(settings.epochs) * -(-rows // int(settings.batch_size))


def _publish(stage: Path) -> Path:
    """Save the adapter, and move the model to its final path in one rename."""
    (weights,) = (stage / "checkpoints").glob("global_step_*/huggingface")
    seal(weights)
    for adapter in (stage / "checkpoints").glob("global_step_*/lora_adapter"):
        adapter.replace(stage / "lora_adapter")
    weights.replace(stage / "model")
    shutil.rmtree(stage / "checkpoints")
    return stage / "model"
