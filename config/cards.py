"""The GPUs of this machine, and the sizes that conf/cluster/gpu*.yaml derive from their memory."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from typing import Any

from omegaconf import DictConfig, OmegaConf

from turngrid.config.lora import adapter_parameters
from turngrid.config.machine import one_for_cores
from turngrid.config.method_settings import has_critic, kinds
from turngrid.config.precision import of_precision
from turngrid.records.models import gpus
from turngrid.records.models.gpus import GB, checkpoint_size, steps_between
from turngrid.records.models.shape import shape_of

SMALL = 60.0  # GB: presets have sizes for cards of 24 GB below, and of 80 GB above
USUAL = 80.0  # GB, without a card and ``estimate_gpu``, as on a node that submits jobs


def gpu_memory(*, _root_: DictConfig) -> float:
    """Return the memory in GB of the GPU in ``estimate_gpu``, else of the smallest GPU here."""
    if _root_.estimate_gpu:
        try:
            return gpus.memory(gpus.parse(_root_.estimate_gpu)[0]) / GB
        except gpus.GpuError:
            return USUAL  # refused by the checks
    return (here() or USUAL * GB) / GB


def for_memory(small: Any, large: Any, *, _root_: DictConfig) -> Any:
    return small if _root_.cluster.gpu_memory_gb < SMALL else large


def without_critic(alone: Any, with_critic: Any, *, _root_: DictConfig) -> Any:
    return with_critic if has_critic(_root_) else alone


def at_least(count: int, there: int | None = None) -> int:
    """Return the number of cores for Ray: as many as its processes request, or more if there are
    more.
    """
    return max(count, there or one_for_cores(1, 10**6))


def importance_weights(*, _root_: DictConfig) -> str | None:
    """Return the level of truncated importance weights.

    In bf16, on GPUs with other kernels too, the server's log-probs differ from the trainer's. So a
    token's loss is weighed by min(p_trainer / p_server, 2), unless the loss has one ratio a turn.
    """
    of_turns = any(getattr(loss, "ratio_of", "token") == "turn" for _, loss in kinds(_root_, "loss"))
    half = _root_.trainer.device == "cuda" or of_precision(False, True, _root_=_root_)
    return "token" if half and not of_turns else None


def checkpoint_every(usual: int, *, _root_: DictConfig) -> int:
    """Return the number of steps between checkpoints, from the cost of one."""
    shape = shape_of(_root_.model.path) if _root_.trainer.device == "cuda" else None
    if shape is None:
        return usual
    return steps_between(checkpoint_size(shape.parameters, has_critic(_root_), adapter_parameters(_root_, shape)))


def here() -> float | None:
    """Return the memory in bytes of the smallest GPU that a process here may use.

    None if the driver reports none.
    """
    return _smallest(os.environ.get("CUDA_VISIBLE_DEVICES"))


def name_of(config: DictConfig) -> str:
    """Return the GPU that the preset's sizes are for, such as ``24GB``."""
    return f"{int(config.cluster.gpu_memory_gb or (here() or USUAL * GB) / GB)}GB"


def is_known(config: DictConfig) -> bool:
    """Return whether the memory of a GPU is set or reported by the driver."""
    return here() is not None or not OmegaConf.is_interpolation(config.cluster, "gpu_memory_gb")


@cache
def _smallest(visible: str | None) -> float | None:
    chosen = [f"--id={visible}"] if visible else []
    command = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits", *chosen]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        return min(float(line.rsplit(",", 1)[1]) * 2**20 for line in done.stdout.splitlines() if line.strip())
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
