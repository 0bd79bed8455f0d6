"""The checks of a composed config, in order: refusals and warnings. The tests read the same lists.

Each check is a generator of messages, one line with the problem and the fix. This module does not
import torch or verl: a run is refused before anything heavy starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from omegaconf import DictConfig

from turngrid.config import asynchronous, curriculum_settings, experience, extension, lora, precision
from turngrid.config.checks import environment, methods, model, several, training
from turngrid.config.errors import ConfigError

Check = Callable[[DictConfig], Iterator[str]]

CHECKS: tuple[Check, ...] = (
    model.estimate_gpu,
    precision.of_gpus,
    model.unusable_folders,
    environment.unknown_task,
    environment.reward_not_offered,
    environment.bad_reward_settings,
    environment.step_deadline,
    environment.bad_window,
    environment.bad_prompt,
    several.bad_history,
    several.bad_actions,
    model.long_name,
    training.critic_and_group,
    training.batches,
    training.passes,
    methods.bad_methods,
    training.bad_budget,
    methods.bad_schedules,
    training.bad_demonstrations,
    experience.bad_experience,
    training.nothing_left,
    curriculum_settings.bad_curriculum,
    model.bad_model,
    lora.bad_adapters,
    environment.bad_evaluation,
    environment.not_in_this_environment,
    training.bad_trainer,
    asynchronous.bad_async,
)
WARNINGS: tuple[Check, ...] = (
    extension.depends_on_length,
    environment.equal_rewards,
    environment.too_few_turns,
    curriculum_settings.short_horizon,
    methods.doubtful_methods,
    training.set_in_vain,
    environment.useless_samples,
)
OF_MODEL: tuple[Check, ...] = (  # warnings that ``turngrid-play`` skips
    environment.little_room,
    environment.few_summaries,
    lora.far_lr,
    training.sft_of_nothing,
    precision.without_instructions,
    model.doubtful_model,
)


def check(config: DictConfig, with_model: bool = True) -> list[str]:
    """Check a config and return its warnings.

    Args:
        config: a complete config.
        with_model: False skips warnings about the model.

    Raises:
        ConfigError: the first refusal that applies.
    """
    for refused in CHECKS:
        if message := next(refused(config), None):
            raise ConfigError(message)
    return [message for warned in (*WARNINGS, *(OF_MODEL if with_model else ())) for message in warned(config)]
