"""Before a run on GPUs of this machine: what cannot fit is refused; what it needs, and how long it may take, is said."""

from __future__ import annotations

from collections.abc import Callable

import psutil
from omegaconf import DictConfig

from config import cards
from config.errors import ConfigError
from experiments.cost_estimate import duration, gpu
from experiments.cost_estimate.estimate import clock
from records.models.gpus import GB
from records.models.shape import Shape, shape_of
from tasks.budget import allocate_budget

UNKNOWN = "note: {what} is not known here, so nobody has checked that the run fits: {how}"


def check(config: DictConfig, say: Callable[[str], None]) -> None:
    """Raises: ConfigError: it does not fit; the message ends with settings that do, where there are any."""
    shape = shape_of(config.model.path)
    if shape is None:
        say(
            UNKNOWN.format(what=f"the size of model.path={config.model.path}", how="docs/cluster.md has the arithmetic")
        )
        return
    if not cards.is_known(config):
        say(UNKNOWN.format(what="the memory of this GPU", how="set cluster.gpu_memory_gb"))
        return
    number = int(config.trainer.n_gpus_per_node) * int(config.trainer.nnodes)
    card = cards.name_of(config), number
    found, needed = gpu.problems(config, card, shape), gpu.host_bytes(config, shape)
    if needed > 0.95 * (there := psutil.virtual_memory().total * int(config.trainer.nnodes)):
        words = f"offload_policy keeps {needed / GB:.0f} GB in the machine's memory"
        found.append(f"{words}, which has {there / GB:.0f}")
    if found:
        raise ConfigError(f"this does not fit: {'; '.join(found)}")
    say(f"{gpu.memory_bytes(config, card, shape) / GB:.0f} of a GPU's {card[0]} needed{_time(config, shape, number)}")


def _time(config: DictConfig, shape: Shape, number: int) -> str:
    card, plan = cards.here(), allocate_budget(config)
    stages = duration.on_gpu(config, plan, shape, card.flops * number) if card and card.flops else []
    counted = f"{plan.steps} steps, {plan.episodes:,} episodes"
    time = f", about {clock(sum(stage.seconds for stage in stages))}" if stages else ""
    return f"; {counted}{time} (arithmetic, not a measurement: docs/cluster.md)"
