"""The SFT stage: verl's SFT trainer on the demonstration episodes, in a process of its own.

A killed SFT stage starts from the beginning, which gives the same weights without any resume code:
it takes seconds with the tiny model, minutes on a GPU.
"""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from tqdm import tqdm

from turngrid.algorithms.registry import FORM
from turngrid.config.machine import SMALL
from turngrid.envs.utils.bar import ticking_bar
from turngrid.experiments.evaluation.stage import set_evaluation_aside
from turngrid.records.files.checkpoints import seal
from turngrid.records.files.json_lines import append_line, read_lines
from turngrid.records.health.alarms import OFF, ROLLBACK, SFT_ALARMS, STOP, Alarm, number
from turngrid.records.process.child import StageFailed
from turngrid.records.process.exit_codes import say
from turngrid.rollouts.store import read_episodes
from turngrid.rollouts.window import rows_of, summed_up
from turngrid.tasks import early_experience
from turngrid.tasks.run import Run
from turngrid.tasks.stage_process import run_stage, tracked

ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}


def train(run: Run, episodes_file: Path, model: str) -> Path:
    """Fine-tune ``model`` on the episodes and return the Hugging Face folder of the result.

    Do nothing if that folder exists: it appears in one rename.

    Raises:
        StageFailed: the trainer's process failed, or an alarm ended it.
    """
    stage = run.folder / "sft"
    if (stage / "model").exists():
        return stage / "model"
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(parents=True)
    set_evaluation_aside(run.folder, "sft")
    OmegaConf.save(sft_config(run, episodes_file, model), stage / "config.yaml")
    variables = {"PYTHONSAFEPATH": "1", **ALONE, **allocator(run)}
    module, arguments = _launch(run)
    with ticking_bar(total=_steps(run, episodes_file), desc="SFT", unit="step") as bar:

        def update() -> None:
            lines = read_lines(stage / "metrics.jsonl")
            if len(lines) > bar.n:
                check_finite(run, lines, seen=int(bar.n))
                bar.set_postfix_str(f"loss {number(lines[-1]['sft/loss']):.3f}")
                bar.update(len(lines) - bar.n)

        run_stage(run, "sft", module, [*arguments, str(stage / "config.yaml")], update, **variables)
    return _publish(stage)


def check_finite(run: Run, lines: Sequence[Mapping[str, Any]], seen: int) -> None:
    """Warn, or end SFT as ``health=`` says, at the first loss or gradient that is not finite.

    ``lines`` are those of ``metrics.jsonl``, of which ``seen`` were checked before.

    Raises:
        StageFailed: ``health`` is ``stop`` or ``rollback``; SFT has no checkpoint to go back to.
    """
    health, rate = run.health, float(run.model.sft.lr)
    ill = next((line for line in lines if None in (line["sft/loss"], line.get("sft/grad_norm", 0.0))), None)
    if ill is None or ill in lines[:seen] or health.name == OFF or health.not_finite is None:
        return
    reason, use = f"the loss or gradient of SFT step {ill['step']} is NaN or infinite", f"model.sft.lr={rate / 3:.1g}"
    text = f"model.sft.lr={rate:g}: {reason}; use {use}"
    append_line(run.folder / SFT_ALARMS, Alarm(ill["step"], "not_finite", reason, f"try {use}", metric="sft/loss"))
    if health.name in (STOP, ROLLBACK):
        raise StageFailed(f"health={health.name}: {text}, or health=warn")
    with tqdm.external_write_mode(file=sys.stderr):
        say(f"alarm: {text}")


def allocator(run: Run) -> dict[str, str]:
    """Return torch's setting against fragmented memory on small cards, unless the user has one.

    verl 0.9.1 sets it itself in RL, in the trainer's process after each transfer of weights.
    """
    small = run.config.trainer.device == "cuda" and run.cluster.gpu_memory_gb < SMALL
    return {ALLOCATOR: "expandable_segments:True"} if small and ALLOCATOR not in os.environ else {}


def sft_config(run: Run, episodes_file: Path, model: str) -> DictConfig:
    """Return the config of the stage's process: ``run`` is ours, ``verl`` over verl's defaults."""
    longest = int(run.config.data.max_prompt_length) + int(run.config.data.max_response_length)
    return OmegaConf.create({"run": _ours(run, episodes_file, longest), "verl": _verls(run, model, longest)})


def _ours(run: Run, episodes_file: Path, longest: int) -> dict[str, Any]:
    config, kind = run.config, run.demos.experience
    return {
        "episodes": str(episodes_file),
        "metrics": str(run.folder / "sft" / "metrics.jsonl"),
        "max_tokens": longest,
        "window_turns": run.env.window_turns,
        "window_keep": run.env.window_keep,
        "prompt": _plain(config.prompt),
        **({FORM: _plain(config[FORM])} if summed_up(config.get(FORM)) else {}),
        **({"experience": {"kind": kind, "rows": str(early_experience.rows_file(run.folder))}} if kind else {}),
        "seed": run.seed,
        "hung_factor": run.cluster.hung_factor,
        "hung_after_s": run.cluster.hung_after_s,
        "template_kwargs": dict(run.chat.kwargs),
        "tracking": asdict(tracked(run, "sft")),
    }


def _verls(run: Run, model: str, longest: int) -> dict[str, Any]:
    """Return verl's settings; model and engine are those of RL, so an option is for both stages."""
    policy, sft = run.config.actor_rollout_ref, run.model.sft
    return {
        "model": _model(policy.model, model),
        "engine": {**_plain(policy.actor.fsdp_config), "seed": run.seed, "forward_only": False},
        "optim": {"lr": sft.lr, "weight_decay": sft.weight_decay},
        "data": {
            "train_files": None,
            "train_batch_size": sft.batch_size,
            "max_token_len_per_gpu": max(sft.tokens_per_pass, longest),
            "num_workers": 0,
        },
        "checkpoint": {"save_contents": ["hf_model"]},
        "trainer": {
            "default_local_dir": str(run.folder / "sft" / "checkpoints"),
            "experiment_name": f"{run.folder.name}-sft",
            "total_epochs": sft.epochs,
            "logger": [],  # those of run.tracking
            "resume_mode": "disable",
            "nnodes": 1,
            **{key: run.config.trainer[key] for key in ("project_name", "device", "n_gpus_per_node")},
        },
    }


def _model(settings: Any, path: str) -> dict[str, Any]:
    keys = ["trust_remote_code", "override_config", "custom_chat_template"]
    keys += ["enable_gradient_checkpointing", "use_remove_padding", "use_fused_kernels"]
    keys += ["lora_rank", "lora_alpha", "target_modules"] if settings.lora_rank else []
    return {"path": path, **{key: value for key, value in _plain(settings).items() if key in keys}}


def _plain(node: Any) -> dict[str, Any]:
    return dict(OmegaConf.to_container(node, resolve=True))


def _launch(run: Run) -> tuple[str, list[str]]:
    """Return the module and its arguments: torchrun if this node has several GPUs."""
    trainer = run.config.trainer
    ranks = 1 if trainer.device == "cpu" else int(trainer.n_gpus_per_node)
    if ranks == 1:
        return "turngrid.verl_plugin.sft", []
    return "torch.distributed.run", ["--standalone", f"--nproc-per-node={ranks}", "-m", "turngrid.verl_plugin.sft"]


def _steps(run: Run, episodes_file: Path) -> int:
    rows = sum(rows_of(len(episode.played_turns), run.window) for episode in read_episodes(episodes_file))
    if run.demos.experience == early_experience.REFLECTION:
        rows += sum(1 for _ in read_episodes(early_experience.rows_file(run.folder)))
    settings = run.model.sft
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
