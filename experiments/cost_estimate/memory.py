"""Does it fit on this machine: disk for games, checkpoints and episodes, and memory where it runs on CPUs."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from config.lora import adapter_parameters
from config.method_settings import has_critic
from envs.catalogue import cache_root
from experiments.cost_estimate.needs import Needs
from experiments.cost_estimate.throughput import ThroughputProfile
from records.models import checkpoint_cost
from records.models.shape import Shape
from tasks.splits import cache_dir

GIB = 2**30
GAME_BYTES, EPISODE_BYTES = 400_000.0, 12_000.0  # TextWorld's w2-o3-q4 with the tiny model
MODEL_BYTES = 4  # a parameter of a plain model
PROCESSES_GIB = 2.0  # Ray, queue, trainer, rollout server with its kept keys, and games, with a model of no size; 1.9 measured with tiny
USABLE = 0.95  # of what is free or there


@dataclass(frozen=True)
class Headroom:
    """Bytes that are needed in a place, and bytes that are free there."""

    what: str
    place: str
    needed: float
    free: float

    @property
    def problem(self) -> str:
        if self.needed <= USABLE * self.free:
            return ""
        return f"{self.what}: {self.needed / GIB:.1f} GiB needed in {self.place}, {self.free / GIB:.1f} GiB there"


def disk(config: DictConfig, needs: Needs, shape: Shape | None, profile: ThroughputProfile | None) -> list[Headroom]:
    cache, output = cache_dir(config) or cache_root(), Path(config.output_dir).expanduser().absolute()
    games = needs.to_make * (profile.game_bytes if profile else GAME_BYTES)
    run = _run_bytes(config, needs, shape, profile)

    def free(folder: Path) -> int:
        return shutil.disk_usage(next(place for place in (folder, *folder.parents) if place.exists())).free

    return [
        Headroom("disk for games", str(cache), games, free(cache)),
        Headroom("disk for the run", str(output), run, free(output)),
    ]


def _run_bytes(config: DictConfig, needs: Needs, shape: Shape | None, profile: ThroughputProfile | None) -> float:
    allocation, parameters = needs.allocation, shape.parameters if shape else 0
    adapter = adapter_parameters(config, shape) if shape else 0
    checkpoint, model = checkpoint_cost.size(parameters, has_critic(config), adapter), float(MODEL_BYTES * parameters)
    if profile and profile.checkpoint_bytes:
        checkpoint, model = profile.checkpoint_bytes, profile.model_bytes
    episode = profile.episode_bytes if profile and profile.episode_bytes else EPISODE_BYTES
    episodes = allocation.demonstrations + allocation.episodes + needs.models * needs.samples
    return (
        kept_checkpoints(config, allocation.steps) * checkpoint
        + bool(allocation.demonstrations) * model
        + episodes * episode
    )


def kept_checkpoints(config: DictConfig, steps: int) -> int:
    """Those that stay, and the one being written."""
    written = -(-steps // int(config.trainer.save_freq)) if config.trainer.save_freq > 0 else bool(steps)
    keep = config.trainer.max_actor_ckpt_to_keep
    return int(min(written, keep + 1) if keep and keep > 0 else written)


def memory(config: DictConfig, shape: Shape | None, total_gib: float) -> list[Headroom]:
    """Nothing on GPUs, nor where the model's size is not known.

    Weights, gradients and Adam of what is trained, the server's and the reference's weights (with LoRA those that the adapters
    lie beside), and the logits of a micro-batch with their gradient, all in fp32.
    """
    if config.trainer.device != "cpu" or shape is None:
        return []
    actor = config.actor_rollout_ref
    critic = has_critic(config)
    adapter = adapter_parameters(config, shape)
    reference = bool(config.algorithm.use_kl_in_reward or actor.actor.use_kl_loss) and not adapter
    trained = 4 * adapter if adapter else 3 * shape.parameters  # beside the weights that are there in any case
    numbers = trained + (1 + 1 + 4 * critic + reference) * shape.parameters
    rows = int(actor.actor.ppo_micro_batch_size_per_gpu or 1)
    length = int(config.data.max_prompt_length) + int(config.data.max_response_length)
    passes = rows * length * 4 * (3 * shape.vocabulary + 16 * shape.layers * shape.hidden)
    needed = PROCESSES_GIB * GIB + 4 * numbers + passes
    return [Headroom("memory", "this machine", needed, total_gib * GIB)]
