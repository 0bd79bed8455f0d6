"""How long each stage will take: from a throughput profile, or on GPUs of known speed by arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

from omegaconf import DictConfig

from config.lora import adapter_parameters
from config.method_settings import has_critic
from config.prompts import form_of
from experiments.cost_estimate.needs import Needs
from experiments.cost_estimate.throughput import ThroughputProfile
from records.models import checkpoint_cost
from records.models.shape import Shape
from tasks.budget import Allocation

GAME_CORE_SECONDS = 0.6  # one core, where no game was made while the profile was measured (TextWorld's w2-o3-q4)
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


@dataclass(frozen=True)
class Forecast:
    """Seconds of one stage, and what they are made of in words."""

    stage: str
    seconds: float
    words: str


def forecast(config: DictConfig, needs: Needs, profile: ThroughputProfile, cores: int) -> list[Forecast]:
    """The stages in their order; only those that the plan has and whose rates are known."""
    game = profile.game_seconds if profile.game_seconds is not None else GAME_CORE_SECONDS / cores
    found = [Forecast("games", needs.to_make * game, f"{needs.to_make} to make x {game:.2f} s")]
    if shown := needs.allocation.demonstrations:
        steps = int(config.model.sft.epochs) * -(-shown // int(config.model.sft.batch_size))
        found += _counted("demonstrations", profile.demonstrations_seconds, shown, "", profile.demonstration_seconds)
        found += _counted("sft", profile.sft_start, steps, " steps", profile.sft_step)
    samples = needs.models * needs.samples
    words = f"{profile.evaluation_start:.1f} s + {needs.models} models x {needs.samples} episodes x {profile.evaluation_sample:.3f} s"
    evaluation = Forecast("evaluation", profile.evaluation_start + samples * profile.evaluation_sample, words)
    return [*found, *_rl(config, needs, profile), evaluation]


def _counted(stage: str, start: float | None, count: int, unit: str, each: float | None) -> list[Forecast]:
    if start is None or each is None:
        return []
    return [Forecast(stage, start + count * each, f"{start:.1f} s + {count}{unit} x {each:.3f} s")]


def _rl(config: DictConfig, needs: Needs, profile: ThroughputProfile) -> list[Forecast]:
    steps = needs.allocation.steps
    if not steps or profile.rl_start is None or profile.rl_step is None:
        return []
    saves, save = -(-steps // int(config.trainer.save_freq)), profile.rl_save or 0.0
    played, each = needs.validation, profile.evaluation_sample
    seconds = profile.rl_start + steps * profile.rl_step + saves * save + played * each
    words = f"{profile.rl_start:.1f} s + {steps} steps x {profile.rl_step:.2f} s + {saves} checkpoints x {save:.2f} s"
    return [Forecast("rl", seconds, words + f" + {played} validation episodes x {each:.3f} s" * bool(played))]


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


def on_gpu(config: DictConfig, plan: Allocation, shape: Shape, flops: float) -> list[Forecast]:
    """RL, and the evaluation of the models that there will be, on GPUs of known speed: no measurement has been fitted to it."""
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
