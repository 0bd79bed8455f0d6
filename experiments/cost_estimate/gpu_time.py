"""How long a run takes on GPUs of known speed: arithmetic that no measurement has been fitted to."""

from __future__ import annotations

from omegaconf import DictConfig

from config.lora import adapter_parameters
from config.method_settings import has_critic
from config.prompts import form_of
from experiments.cost_estimate.duration import Forecast
from records.models import checkpoint_cost
from records.models.shape import Shape
from tasks.budget import Allocation

TOKENS, SAMPLED = 610.0, 43.0  # of an episode, where none was measured: TextWorld's w2-o3-q4, prompt=plain
THOUGHT = 0.25  # of env.max_action_tokens: what a prompt form that thinks adds to each of an episode's turns
DECODE = (
    0.01  # seconds a token of a thought: a turn's tokens come one after the other, those of other episodes beside them
)
USE = 0.3  # of a GPU's bf16 operations
READ, UPDATE = 2, 8  # operations a parameter and token: a pass forward; forward, again (checkpointing) and backward
OTHER = 7.0  # seconds a step: sampling token by token, games, weights to the server and back
START, COMPILE, EVALUATION = 180.0, 120.0, 60.0  # seconds: of the RL stage, of kernels, of a model in an evaluation
ASSUMPTIONS = (
    f"time: {USE:.0%} of the GPUs' bf16 operations, {TOKENS:g} tokens an episode (with thoughts {THOUGHT:.0%} of "
    f"env.max_action_tokens a turn more, {DECODE:g} s each), {OTHER:g} s a step besides, a disk of "
    f"{checkpoint_cost.DISK / 1e9:g} GB/s; games, demonstrations and SFT not counted; no measurement has been fitted to it"
)


def tokens(config: DictConfig) -> tuple[float, float]:
    """Of an episode, where none was measured: all, and those that are sampled."""
    return TOKENS + _thoughts(config), SAMPLED + _thoughts(config)


def _thoughts(config: DictConfig) -> float:
    """Tokens of an episode of all its turns."""
    form = form_of(config)
    thinks = bool(form.thinks or form.parts)
    return THOUGHT * config.env.max_action_tokens * config.env.max_turns * thinks


def step_seconds(config: DictConfig, episodes: int, shape: Shape, flops: float) -> float:
    """``flops`` of all GPUs together. Played, read for old log-probabilities and by a reference, updated; a critic reads and is
    updated too."""
    actor = config.actor_rollout_ref.actor
    reference = bool(actor.use_kl_loss or config.algorithm.use_kl_in_reward)
    work = READ + READ + READ * reference + UPDATE + (READ + UPDATE) * has_critic(config)
    computed = work * shape.parameters * episodes * tokens(config)[0] / (USE * flops)
    return computed + DECODE * _thoughts(config) + OTHER


def forecast(config: DictConfig, plan: Allocation, shape: Shape, flops: float) -> list[Forecast]:
    """RL, and the evaluation of the models that there will be."""
    step = step_seconds(config, plan.episodes_per_step, shape, flops)
    save = checkpoint_cost.seconds(
        checkpoint_cost.size(shape.parameters, has_critic(config), adapter_parameters(config, shape))
    )
    saves = -(-plan.steps // int(config.trainer.save_freq))
    words = f"{START + COMPILE:.0f} s + {plan.steps} steps x {step:.1f} s + {saves} checkpoints x {save:.0f} s"
    rl = Forecast("rl", START + COMPILE + plan.steps * step + saves * save, words)
    models = 1 + bool(plan.demonstrations) + bool(plan.steps)
    evaluation = Forecast("evaluation", models * EVALUATION, f"{models} models x {EVALUATION:.0f} s")
    return [*([rl] if plan.steps else []), evaluation]
