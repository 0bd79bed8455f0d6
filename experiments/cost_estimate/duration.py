"""How long each stage will take, from a throughput profile."""

from __future__ import annotations

from dataclasses import dataclass

from omegaconf import DictConfig

from experiments.cost_estimate.needs import Needs
from experiments.cost_estimate.throughput import ThroughputProfile

GAME_CORE_SECONDS = 0.6  # one core, where no game was made while the profile was measured (TextWorld's w2-o3-q4)


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
