"""How long each stage will take: as recorded on this machine, or on GPUs of known speed by arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omegaconf import DictConfig

from config.lora import adapter_parameters
from config.method_settings import has_critic
from config.prompts import form_of
from experiments.cost_estimate.needs import Needs
from experiments.cost_estimate.profiles import Pace, Profile, machine
from records.models import checkpoint_cost
from records.models.shape import Shape
from tasks.budget import Allocation

MINUTE, HOUR = 60, 3600
GAME_CORE_SECONDS = 0.6  # of one core, if no run recorded it: TextWorld's w2-o3-q4
TOKENS, SAMPLED = 610.0, 43.0  # of an episode, if no run recorded it: TextWorld's w2-o3-q4, prompt=plain
THOUGHT = 0.25  # of env.max_action_tokens: what a prompt form that thinks adds to each turn of an episode
DECODE = 0.01  # seconds a token of a thought: one after the other, other episodes at the same time
USE = 0.3  # of a GPU's bf16 operations
READ, UPDATE = 2, 8  # operations a parameter and token: a pass forward; forward, again (checkpointing) and backward
OTHER = 7.0  # seconds a step: sampling token by token, games, weights to the server and back
START, COMPILE, EVALUATION = 180.0, 120.0, 60.0  # seconds: of the RL stage, of kernels, of a model in an evaluation


@dataclass(frozen=True)
class Forecast:
    """``count`` units of a stage at a pace; None: no run recorded it."""

    stage: str
    count: int
    unit: str
    pace: Pace | None

    @property
    def seconds(self) -> float | None:
        return self.pace.start + self.count * self.pace.each if self.pace else None

    @property
    def words(self) -> str:
        if self.pace is None:
            return f"{self.count:,} {self.unit}"
        start = f"{self.pace.start:.1f} s + " if self.pace.start else ""
        return f"{start}{self.count:,} {self.unit} x {self.pace.each:.3g} s"


def forecast(config: DictConfig, needs: Needs, profile: Profile) -> list[Forecast]:
    """The stages that the run has, in their order."""
    shown, sft, paces = needs.allocation.demonstrations, config.model.sft, profile.paces
    game = paces.get("games", Pace(0.0, GAME_CORE_SECONDS / machine()["cores"]))
    stages = [
        Forecast("games", needs.to_make, "to make", game),
        Forecast("demonstrations", shown, "played", paces.get("demonstrations")),
        Forecast("sft", int(sft.epochs) * -(-shown // int(sft.batch_size)), "steps", paces.get("sft")),
        Forecast("rl", needs.allocation.steps, "steps", paces.get("rl")),
        Forecast("evaluation", needs.models * needs.samples, "episodes", paces.get("evaluation")),
    ]
    return [stage for stage in stages if stage.count]


def total(stages: Sequence[Forecast]) -> float | None:
    """Seconds of all stages; None if one of them was never recorded."""
    seconds = [stage.seconds for stage in stages if stage.seconds is not None]
    return sum(seconds) if len(seconds) == len(stages) else None


def clock(seconds: float | None) -> str:
    """``45 s``, ``4.6 min``, ``12.3 h``, or ``not recorded``."""
    if seconds is None:
        return "not recorded"
    if seconds < 2 * MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / MINUTE:.1f} min" if seconds < 2 * HOUR else f"{seconds / HOUR:.1f} h"


def tokens(config: DictConfig) -> dict[str, float]:
    """Of an episode, if no run recorded them: all, and those that are sampled."""
    return {"tokens": TOKENS + _thoughts(config), "sampled": SAMPLED + _thoughts(config)}


def _thoughts(config: DictConfig) -> float:
    """Tokens of an episode of all its turns."""
    form = form_of(config)
    thinks = bool(form.thinks or form.parts)
    return THOUGHT * config.env.max_action_tokens * config.env.max_turns * thinks


def step_seconds(config: DictConfig, episodes: int, shape: Shape, flops: float) -> float:
    """Seconds of an RL step on GPUs with ``flops`` operations a second, all together.

    An episode is sampled, read for old log-probabilities and by a reference, and trained on; a critic
    reads it and is trained on it too.
    """
    actor = config.actor_rollout_ref.actor
    reference = bool(actor.use_kl_loss or config.algorithm.use_kl_in_reward)
    work = READ + READ + READ * reference + UPDATE + (READ + UPDATE) * has_critic(config)
    computed = work * shape.parameters * episodes * tokens(config)["tokens"] / (USE * flops)
    return computed + DECODE * _thoughts(config) + OTHER


def on_gpu(config: DictConfig, plan: Allocation, shape: Shape, flops: float) -> list[Forecast]:
    """RL and evaluation on GPUs of known speed; no measurement has been fitted to it."""
    step = step_seconds(config, plan.episodes_per_step, shape, flops)
    saved = checkpoint_cost.size(shape.parameters, has_critic(config), adapter_parameters(config, shape))
    saves, models = -(-plan.steps // int(config.trainer.save_freq)), 1 + bool(plan.demonstrations) + bool(plan.steps)
    stages = [
        Forecast("rl", plan.steps, "steps", Pace(START + COMPILE, step)),
        Forecast("checkpoints", saves, "saved", Pace(0.0, checkpoint_cost.seconds(saved))),
        Forecast("evaluation", models, "models", Pace(0.0, EVALUATION)),
    ]
    return [stage for stage in stages if stage.count]
