"""This machine, without importing torch or vLLM: GPUs, sizes that follow from them, and checks."""

import math
import os
import re
import shutil
import subprocess
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from turngrid.config import asynchronous
from turngrid.config.errors import ConfigError
from turngrid.config.lora import adapter_parameters
from turngrid.config.method_settings import has_critic, kinds
from turngrid.config.precision import server_agrees
from turngrid.envs.games.cache import cache_root
from turngrid.records.models import gpus as known_gpus
from turngrid.records.models.gpus import GB, checkpoint_size, sharded_over, steps_between
from turngrid.records.models.locate import check_packaged
from turngrid.records.models.shape import LLAMA_LIKE, Shape, settings_of, shape_of
from turngrid.records.process.exit_codes import Refusal

SMALL = 60.0  # GB: smaller cards get the presets' sizes for 24 GB, larger ones those for 80 GB
USUAL = 80.0  # GB, without a card and ``estimate_gpu``, as on a node that submits jobs

OTHER_DRIVERS = ("/dev/dxg", "/dev/kfd")  # WSL, AMD: no device file for each GPU
VLLM_CPU_HEADS = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)  # vLLM 0.30's CPUAttentionBackend
MODEL = "actor_rollout_ref.model"
FLASH = "flash_attention_2"  # verl's default
INSTALL_FLASH = "python -m turngrid.train.flash_attn"
PACKAGES = ("wandb", "trackio")  # trackers of trainer.logger that are optional packages
HOST = "https://api.wandb.ai"
QUIET_MODES = ("offline", "disabled", "dryrun", "shared")


def gpus(devices: Path = Path("/dev")) -> int | None:
    """Return the number of GPUs that a process may use; None if it is unknown."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    files = sum(bool(re.fullmatch(r"nvidia\d+", file.name)) for file in devices.iterdir())
    unnumbered = shutil.which("nvidia-smi") or any(Path(path).exists() for path in OTHER_DRIVERS)
    if not files and not unnumbered:
        return 0
    if visible is not None:
        return len([name for name in visible.split(",") if name.strip() not in ("", "-1", "NoDevFiles")])
    return files or None


def vllm_installed() -> bool:
    return find_spec("vllm") is not None


def gpu_rollout() -> str:
    """Return the default server on GPUs: vLLM, unless this machine has GPUs and no vLLM."""
    return "transformers" if gpus() != 0 and not vllm_installed() else "vllm"


def one_for_cores(cores: int, most: int) -> int:
    """Return one process for every ``cores`` usable cores, at least 1 and at most ``most``."""
    return max(1, min(most, len(os.sched_getaffinity(0)) // cores))


# ---- sizes that follow from a GPU's memory


def gpu_memory(*, _root_: DictConfig) -> float:
    """Return the memory in GB of the GPU in ``estimate_gpu``, else of the smallest GPU here."""
    if _root_.estimate_gpu:
        try:
            return known_gpus.parse(_root_.estimate_gpu)[2] / GB
        except Refusal:
            return USUAL  # refused by the checks
    return (here() or USUAL * GB) / GB


def for_memory(small: Any, large: Any, *, _root_: DictConfig) -> Any:
    return small if _root_.cluster.gpu_memory_gb < SMALL else large


def fused_kernels(*, _root_: DictConfig) -> bool:
    """Return whether log-probs come from verl's fused kernels: on small cards, if the model allows.

    They read the head's weight, which verl shards apart unless it is the embedding's, and leave out
    what some kinds of models do to their logits.
    """
    model = settings_of(_root_.model.path) or {}
    allowed = model.get("model_type") in LLAMA_LIKE and model.get("tie_word_embeddings")
    return bool(allowed and _root_.cluster.gpu_memory_gb < SMALL)


def embedding_mib(least: int, *, _root_: DictConfig) -> int:
    """Return the MiB of the embedding in fp32, at least ``least``; 4,096 if its size is unknown."""
    shape = shape_of(_root_.model.path)
    return max(least, math.ceil(4 * shape.vocabulary * shape.hidden / 2**20) if shape else 4096)


def without_critic(alone: Any, with_critic: Any, *, _root_: DictConfig) -> Any:
    return with_critic if has_critic(_root_) else alone


def at_least(count: int, there: int | None = None) -> int:
    """Return the number of cores for Ray: at least as many as its processes request."""
    return max(count, there or one_for_cores(1, 10**6))


def importance_weights(*, _root_: DictConfig) -> str | None:
    """Return the level of truncated importance weights, where server and trainer differ.

    A token's loss is weighed by min(p_trainer / p_server, 2), unless the loss has one ratio a turn.
    """
    of_turns = any(getattr(loss, "ratio_of", "token") == "turn" for _, loss in kinds(_root_, "loss"))
    return "token" if not (server_agrees(_root_=_root_) or of_turns) else None


def checkpoint_every(usual: int, *, _root_: DictConfig) -> int:
    shape = shape_of(_root_.model.path) if _root_.trainer.device == "cuda" else None
    return usual if shape is None else steps_between(checkpoint_bytes(_root_, shape))


def checkpoint_bytes(config: DictConfig, shape: Shape) -> float:
    number = int(config.trainer.n_gpus_per_node) * int(config.trainer.nnodes)
    copies = number // sharded_over(number, config.actor_rollout_ref.actor.fsdp_config.fsdp_size)
    return checkpoint_size(shape.parameters, has_critic(config), adapter_parameters(config, shape), copies)


@cache
def here() -> float | None:
    """Return the bytes of the smallest GPU that a process here may use; None if there is none."""
    with suppress(ValueError):
        return min((float(line) * 2**20 for line in nvidia_smi("memory.total")), default=None)
    return None


def nvidia_smi(query: str) -> list[str]:
    """Return a line for each GPU that a process here may use; nothing without a driver."""
    chosen = [f"--id={visible}"] if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) else []
    asked = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits", *chosen]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=True)
        return [line for line in done.stdout.splitlines() if line.strip()]
    return []


# ---- checks before a run starts here


def check(config: DictConfig) -> None:
    """Raise a Refusal if a run needs what this machine lacks, before it starts here."""
    check_gpus(config)
    check_trackers(config)
    if config.actor_rollout_ref.rollout.name == "vllm" and not vllm_installed():
        use = "use rollout=transformers, or pip install 'turngrid[gpu]'"
        raise ConfigError(f"rollout=vllm: vLLM is not installed in this Python; {use}")
    check_kernels(config)
    check_packaged(config.model.path, cache_root())


def check_gpus(config: DictConfig) -> None:
    there, wanted, needed = gpus(), int(config.trainer.n_gpus_per_node), gpus_of_node(config)
    if config.trainer.device != "cuda" or there is None or there >= needed:
        return
    if there:
        reason = f"this machine has {there} GPUs (CUDA_VISIBLE_DEVICES counts)"
        use = f"use trainer.n_gpus_per_node={there} or cluster=gpu1"
        if needed > wanted:
            reason = f"separate servers make it {needed}, and {reason}"
            fewer = there * wanted // needed
            use = f"use trainer.n_gpus_per_node={fewer}" if fewer else "use trainer.v1.trainer_mode=colocate_async"
        raise ConfigError(f"trainer.n_gpus_per_node={wanted}: {reason}; {use}")
    cost = f"estimate=true estimate_gpu=H100x{wanted * int(config.trainer.nnodes)} for its cost there"
    use = f"use cluster=cpu, or {cost}, or -m to reach SLURM's nodes (docs/slurm.md)"
    raise ConfigError(f"cluster={config.cluster.name}: this machine has no GPU; {use}")


def gpus_of_node(config: DictConfig) -> int:
    """Return the GPUs that a run takes of a node; if Ray has one node, with separate servers."""
    alone = config.ray_kwargs.ray_init.address == "local"
    return asynchronous.gpus_needed(config) if alone else int(config.trainer.n_gpus_per_node)


def check_kernels(config: DictConfig) -> None:
    """Raise ConfigError if trainer or server has no attention kernel for a model on this disk."""
    model = config.actor_rollout_ref.model
    if config.trainer.device == "cuda" and not find_spec("flash_attn"):
        if has_critic(config):
            reason = "verl loads a critic on GPUs with flash-attn, which is not installed"
            raise ConfigError(f"algo={config.algo.name}: {reason}; {INSTALL_FLASH}, or use algo=grpo (docs/cluster.md)")
        chosen = OmegaConf.select(model, "override_config.attn_implementation", default=FLASH)
        if chosen == FLASH or model.use_remove_padding:
            reason = f"it trains with flash-attn, which is not installed; {INSTALL_FLASH}"
            use = f"'+{MODEL}.override_config.attn_implementation=sdpa' {MODEL}.use_remove_padding=false"
            raise ConfigError(f"cluster={config.cluster.name}: {reason}, or use {use} (docs/cluster.md)")
    if config.trainer.device == "cpu" and config.actor_rollout_ref.rollout.name == "vllm":
        shape = shape_of(config.model.path)
        if shape and shape.head_size not in VLLM_CPU_HEADS:
            reason = f"its attention heads have {shape.head_size} numbers, for which vLLM has no kernel on CPUs"
            raise ConfigError(f"model.path={config.model.path}: {reason}; use rollout=transformers")


def check_trackers(config: DictConfig) -> None:
    """Raise ConfigError if a tracker is not installed, or online W&B has no login."""
    wanted = [name for name in PACKAGES if name in config.trainer.logger]
    for name in wanted:
        if find_spec(name) is None:
            use = f"pip install 'turngrid[{name}]', or use tracking=local"
            raise ConfigError(f"trainer.logger={list(config.trainer.logger)}: {name} is not installed; {use}")
    host = os.environ.get("WANDB_BASE_URL", HOST)
    online = not config.tracking.offline and os.environ.get("WANDB_MODE", "online") not in QUIET_MODES
    if "wandb" in wanted and online:
        from wandb.sdk.lib.wbauth import authenticate_session  # a second to import

        if authenticate_session(host=host, source="turngrid", prompt=False, update_session=False) is None:
            use = "run `wandb login`, set WANDB_API_KEY, or use tracking=wandb_offline and later `wandb sync`"
            raise ConfigError(f"tracking=wandb: there is no key for {host}; {use}")
