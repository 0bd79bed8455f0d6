"""Games that are played between training steps (``trainer.test_freq``): never trained on, and no test games either, so that
whatever is chosen by them costs the test nothing."""

from __future__ import annotations

from omegaconf import DictConfig


def validates(config: DictConfig) -> bool:
    return bool(config.trainer.test_freq > 0 or config.trainer.val_before_train)


def games(config: DictConfig, steps: int) -> int:
    """None without RL."""
    return int(config.eval.validation_games) if steps and validates(config) else 0


def samples(config: DictConfig, steps: int) -> int:
    """Episodes of all validations together: before the first step if asked for, every ``trainer.test_freq`` steps, and after the
    last."""
    every = int(config.trainer.test_freq)
    times = (-(-steps // every) if every > 0 else 0) + bool(config.trainer.val_before_train)
    return times * games(config, steps) * int(config.actor_rollout_ref.rollout.val_kwargs.n)
