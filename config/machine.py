"""What this machine has, found without importing torch or vLLM: GPUs, a server for rollouts, attention kernels, trackers."""

from __future__ import annotations

import os
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from config.errors import ConfigError
from config.method_settings import has_critic
from records.models.shape import shape_of

OTHER_DRIVERS = ("/dev/dxg", "/dev/kfd")  # Windows' Linux, AMD: no device file a GPU
NO_GPU = (
    "cluster={cluster} computes on GPUs and this machine has none: cluster=cpu trains here, estimate=true estimate_gpu=H100x{wanted} "
    "tells what the run would take there, and SLURM's nodes are reached with -m (docs/slurm.md)"
)
FEW_GPUS = (
    "trainer.n_gpus_per_node={wanted} and this machine has {there}: set it to that, or choose cluster=gpu1 "
    "(CUDA_VISIBLE_DEVICES counts)"
)
NO_VLLM = (
    "rollout=vllm and vLLM is not installed in this Python: choose rollout=transformers, or pip install 'turngrid[gpu]'"
)

VLLM_CPU_HEADS = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)  # vLLM 0.30's CPUAttentionBackend
FLASH = "flash_attention_2"  # what verl takes unless told otherwise
NO_VLLM_KERNEL = "model.path={path} has attention heads of {size} numbers, and vLLM's CPU kernels are for {sizes}: choose rollout=transformers"
NO_FLASH = (
    "cluster={cluster} trains with flash-attn and it is not installed: pip install --no-build-isolation flash-attn==2.8.3, or "
    "do without (docs/cluster.md): '+actor_rollout_ref.model.override_config.attn_implementation=sdpa' "
    "actor_rollout_ref.model.use_remove_padding=false"
)
NO_FLASH_CRITIC = (
    "algo={algo} has a critic, which verl loads on GPUs with flash-attn whatever the config says, and it is not installed: pip "
    "install --no-build-isolation flash-attn==2.8.3, or choose algo=grpo or algo=rloo (docs/cluster.md)"
)
PACKAGES = ("wandb", "trackio")  # of trainer.logger: those that are extras
HOST = "https://api.wandb.ai"
QUIET_MODES = ("offline", "disabled", "dryrun", "shared")
NOT_INSTALLED = (
    "trainer.logger has {name} and {name} is not installed in this Python: pip install 'turngrid[{name}]', or choose "
    "tracking=local"
)
NO_KEY = (
    "tracking=wandb finds no key for {host}: run `wandb login`, set WANDB_API_KEY, or choose tracking=wandb_offline and send "
    "the logs later by `wandb sync`"
)


def gpus(devices: Path = Path("/dev")) -> int | None:
    """GPUs that a process started here may use; None: there are some, and only their driver could tell how many."""
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
    """The option of ``rollout=`` that ``cluster=gpu*`` takes unless one is named: vLLM, also where only the nodes of a
    cluster have GPUs; where this machine has GPUs and no vLLM, what can run here."""
    return "transformers" if gpus() != 0 and not vllm_installed() else "vllm"


def one_for_cores(cores: int, most: int) -> int:
    """Processes, one for so many of the cores that this process may use (under SLURM, the job's), up to ``most``."""
    return max(1, min(most, len(os.sched_getaffinity(0)) // cores))


def check(config: DictConfig) -> None:
    """Called where a run is about to start, not where it is composed, planned or submitted.

    Raises:
        ConfigError: the run needs GPUs, a server or a tracker that this machine lacks.
    """
    check_gpus(config)
    check_trackers(config)
    if config.actor_rollout_ref.rollout.name == "vllm" and not vllm_installed():
        raise ConfigError(NO_VLLM)
    check_kernels(config)


def check_gpus(config: DictConfig) -> None:
    """Raises: ConfigError: fewer GPUs than asked for."""
    if config.trainer.device != "cuda":
        return
    there, wanted = gpus(), int(config.trainer.n_gpus_per_node)
    if there == 0:
        total = wanted * int(config.trainer.nnodes)
        raise ConfigError(NO_GPU.format(cluster=config.cluster.name, wanted=total))
    if there is not None and there < wanted:
        raise ConfigError(FEW_GPUS.format(wanted=wanted, there=there))


def check_kernels(config: DictConfig) -> None:
    """A model that is not here yet is taken on trust.

    Raises:
        ConfigError: trainer or server would look in vain for its attention kernel.
    """
    model = config.actor_rollout_ref.model
    if config.trainer.device == "cuda":
        chosen = OmegaConf.select(model, "override_config.attn_implementation", default=FLASH)
        if find_spec("flash_attn"):
            return
        if has_critic(config):
            raise ConfigError(NO_FLASH_CRITIC.format(algo=config.algo.name))
        if chosen == FLASH or model.use_remove_padding:
            raise ConfigError(NO_FLASH.format(cluster=config.cluster.name))
    elif config.actor_rollout_ref.rollout.name == "vllm":
        shape = shape_of(config.model.path)
        if shape and shape.head_size not in VLLM_CPU_HEADS:
            sizes = ", ".join(map(str, VLLM_CPU_HEADS))
            raise ConfigError(NO_VLLM_KERNEL.format(path=config.model.path, size=shape.head_size, sizes=sizes))


def check_trackers(config: DictConfig) -> None:
    """Raises: ConfigError: a tracker is not installed, or Weights & Biases is to be told online and nobody is logged in."""
    wanted = [name for name in PACKAGES if name in config.trainer.logger]
    for name in wanted:
        if find_spec(name) is None:
            raise ConfigError(NOT_INSTALLED.format(name=name))
    host = os.environ.get("WANDB_BASE_URL", HOST)
    online = not config.tracking.offline and os.environ.get("WANDB_MODE", "online") not in QUIET_MODES
    if "wandb" in wanted and online and not _logged_in(host):
        raise ConfigError(NO_KEY.format(host=host))


def _logged_in(host: str) -> bool:
    """As wandb itself looks for keys: environment, netrc, settings. A second to import, so only where it is asked for."""
    from wandb.sdk.lib.wbauth import authenticate_session

    return authenticate_session(host=host, source="turngrid", prompt=False, update_session=False) is not None
