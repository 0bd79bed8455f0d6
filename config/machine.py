"""Checks of this machine, without importing torch or vLLM: GPUs, vLLM, attention kernels,
trackers."""

from __future__ import annotations

import os
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from turngrid.config.errors import ConfigError
from turngrid.config.method_settings import has_critic
from turngrid.records.models.shape import shape_of

OTHER_DRIVERS = ("/dev/dxg", "/dev/kfd")  # WSL, AMD: no device file for each GPU
VLLM_CPU_HEADS = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)  # vLLM 0.30's CPUAttentionBackend
FLASH = "flash_attention_2"  # verl's default
INSTALL_FLASH = "python -m turngrid.train.flash_attn"
PACKAGES = ("wandb", "trackio")  # trackers of trainer.logger that are optional packages
HOST = "https://api.wandb.ai"
QUIET_MODES = ("offline", "disabled", "dryrun", "shared")


def gpus(devices: Path = Path("/dev")) -> int | None:
    """Return the number of GPUs that a process may use; None if there are GPUs of unknown
    number.
    """
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
    """Return the default ``rollout=`` of ``cluster=gpu*``: vLLM, unless this machine has GPUs and
    no vLLM.
    """
    return "transformers" if gpus() != 0 and not vllm_installed() else "vllm"


def one_for_cores(cores: int, most: int) -> int:
    """Return one process for every ``cores`` usable cores, at least 1 and at most ``most``."""
    return max(1, min(most, len(os.sched_getaffinity(0)) // cores))


def check(config: DictConfig) -> None:
    """Check this machine before a run starts here. Composing, estimating and submitting do not need
    it.

    Raises:
        ConfigError: the run needs GPUs, a server or a tracker that this machine lacks.
    """
    check_gpus(config)
    check_trackers(config)
    if config.actor_rollout_ref.rollout.name == "vllm" and not vllm_installed():
        raise ConfigError(
            "rollout=vllm: vLLM is not installed in this Python; use rollout=transformers, or "
            "pip install 'turngrid[gpu]'"
        )
    check_kernels(config)


def check_gpus(config: DictConfig) -> None:
    """Check the number of GPUs.

    Raises:
        ConfigError: there are fewer GPUs than requested.
    """
    there, wanted = gpus(), int(config.trainer.n_gpus_per_node)
    if config.trainer.device != "cuda" or there is None or there >= wanted:
        return
    if there:
        raise ConfigError(
            f"trainer.n_gpus_per_node={wanted}: this machine has {there} GPUs (CUDA_VISIBLE_DEVICES counts); use "
            f"trainer.n_gpus_per_node={there} or cluster=gpu1"
        )
    raise ConfigError(
        f"cluster={config.cluster.name}: this machine has no GPU; use cluster=cpu, or "
        f"estimate=true estimate_gpu=H100x{wanted * int(config.trainer.nnodes)} for its cost there, or -m to reach "
        "SLURM's nodes (docs/slurm.md)"
    )


def check_kernels(config: DictConfig) -> None:
    """Check attention kernels, unless the model is not on this disk yet.

    Raises:
        ConfigError: trainer or server has no attention kernel for the model.
    """
    model = config.actor_rollout_ref.model
    if config.trainer.device == "cuda" and not find_spec("flash_attn"):
        if has_critic(config):
            raise ConfigError(
                f"algo={config.algo.name}: verl loads a critic on GPUs with flash-attn, which is not installed; "
                f"{INSTALL_FLASH}, or use algo=grpo or algo=rloo (docs/cluster.md)"
            )
        chosen = OmegaConf.select(model, "override_config.attn_implementation", default=FLASH)
        if chosen == FLASH or model.use_remove_padding:
            raise ConfigError(
                f"cluster={config.cluster.name}: it trains with flash-attn, which is not installed; {INSTALL_FLASH}, "
                "or use '+actor_rollout_ref.model.override_config.attn_implementation=sdpa' "
                "actor_rollout_ref.model.use_remove_padding=false (docs/cluster.md)"
            )
    if config.trainer.device == "cpu" and config.actor_rollout_ref.rollout.name == "vllm":
        shape = shape_of(config.model.path)
        if shape and shape.head_size not in VLLM_CPU_HEADS:
            raise ConfigError(
                f"model.path={config.model.path}: its attention heads have {shape.head_size} numbers, and vLLM's CPU "
                f"kernels are for {', '.join(map(str, VLLM_CPU_HEADS))}; use rollout=transformers"
            )


def check_trackers(config: DictConfig) -> None:
    """Check that trackers can be used.

    Raises:
        ConfigError: a tracker is not installed, or online Weights & Biases has no login.
    """
    wanted = [name for name in PACKAGES if name in config.trainer.logger]
    for name in wanted:
        if find_spec(name) is None:
            raise ConfigError(
                f"trainer.logger={list(config.trainer.logger)}: {name} is not installed in this Python; "
                f"pip install 'turngrid[{name}]', or use tracking=local"
            )
    host = os.environ.get("WANDB_BASE_URL", HOST)
    online = not config.tracking.offline and os.environ.get("WANDB_MODE", "online") not in QUIET_MODES
    if "wandb" in wanted and online and not _logged_in(host):
        raise ConfigError(
            f"tracking=wandb: there is no key for {host}; run `wandb login`, set WANDB_API_KEY, or use "
            "tracking=wandb_offline and later `wandb sync`"
        )


def _logged_in(host: str) -> bool:
    """Return whether wandb finds a key (environment, netrc, settings). Importing it takes a
    second.
    """
    from wandb.sdk.lib.wbauth import authenticate_session

    return authenticate_session(host=host, source="turngrid", prompt=False, update_session=False) is not None
