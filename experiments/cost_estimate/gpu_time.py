"""Seconds of RL and evaluation on GPUs, computed from operation counts; not fitted to
measurements.
"""

from __future__ import annotations

from omegaconf import DictConfig

from turngrid.config.lora import adapter_parameters
from turngrid.config.method_settings import has_critic
from turngrid.config.prompts import form_of
from turngrid.records.models import checkpoint_cost
from turngrid.records.models.shape import Shape
from turngrid.tasks.budget import Allocation

TOKENS, SAMPLED = 610.0, 43.0  # tokens an episode in TextWorld's w2-o3-q4, prompt=plain
THOUGHT = 0.25  # of env.max_action_tokens: what a prompt form that thinks adds to each turn of an episode
DECODE = 0.01  # seconds a thought token: sequential in an episode, parallel over episodes
USE = 0.3  # share of a GPU's peak bf16 operations that is reached
READ, UPDATE = 2, 8  # operations a parameter and token: a pass forward; forward, again (checkpointing) and backward
OTHER = 7.0  # seconds a step: decoding, games, weight transfer to the server
START, EVALUATION = 300.0, 60.0  # seconds to start the RL stage (with kernel compilation), and to evaluate a model


def tokens(config: DictConfig) -> dict[str, float]:
    """Return the default number of all tokens of an episode and of its sampled tokens."""
    return {"tokens": TOKENS + _thoughts(config), "sampled": SAMPLED + _thoughts(config)}


def _thoughts(config: DictConfig) -> float:
    """Return the number of thought tokens of an episode."""
    form = form_of(config)
    thinks = bool(form.thinks or form.parts)
    return float(THOUGHT * config.env.max_action_tokens * config.env.max_turns * thinks)


def step_seconds(config: DictConfig, episodes: int, shape: Shape, flops: float) -> float:
    """Return the seconds of an RL step; ``flops``: operations a second of all GPUs together.

    The policy samples an episode, computes old log-probabilities and trains on it. A reference
    model and a critic, if any, each add a forward pass; the critic also trains.
    """
    actor = config.actor_rollout_ref.actor
    reference = bool(actor.use_kl_loss or config.algorithm.use_kl_in_reward)
    work = READ + READ + READ * reference + UPDATE + (READ + UPDATE) * has_critic(config)
    computed = work * shape.parameters * episodes * tokens(config)["tokens"] / (USE * flops)
    return computed + DECODE * _thoughts(config) + OTHER


def checkpoint_bytes(config: DictConfig, shape: Shape) -> float:
    """Return the size of a checkpoint."""
    return checkpoint_cost.size(shape.parameters, has_critic(config), adapter_parameters(config, shape))


def gpu_seconds(config: DictConfig, allocation: Allocation, shape: Shape, flops: float) -> dict[str, float | None]:
    """Return the seconds of each stage; ``flops``: operations a second of all GPUs together."""
    models = 1 + bool(allocation.demonstrations) + bool(allocation.steps)
    evaluation = {"evaluation": EVALUATION * models}
    if not allocation.steps:
        return {**evaluation}
    step = step_seconds(config, allocation.episodes_per_step, shape, flops)
    saves = -(-allocation.steps // int(config.trainer.save_freq))
    saving = saves * checkpoint_cost.seconds(checkpoint_bytes(config, shape))
    return {"rl": START + allocation.steps * step, "checkpoints": saving, **evaluation}
