"""The table of config checks: refusals and warnings, in order. The tests read the same table.

This module does not import torch or verl: a run is refused before anything heavy starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from omegaconf import DictConfig

from turngrid.config import asynchronous, curriculum_settings, experience, extension, lora, precision
from turngrid.config.checks import budget, environment, folders, methods, model, prompt, training
from turngrid.config.errors import ConfigError


@dataclass(frozen=True)
class Rule:
    """One check.

    Attributes:
        name: its name in the tests.
        applies: returns one line with the problem and the fix, or None.
        of_model: skip this rule if no model plays (``turngrid-play``).
    """

    name: str
    applies: Callable[[DictConfig], str | None]
    of_model: bool = False


CHECKS: tuple[Rule, ...] = (
    Rule("estimate_gpu", model.no_such_gpu),
    Rule("precision", precision.of_gpus),
    Rule("folders", folders.unusable),
    Rule("task", environment.unknown_task),
    Rule("reward", environment.reward_not_offered),
    Rule("reward_settings", environment.bad_reward_settings),
    Rule("step_deadline", environment.step_deadline),
    Rule("window", environment.bad_window),
    Rule("prompt", prompt.bad_prompt),
    Rule("long_name", folders.too_long),
    Rule("no_critic", training.no_critic),
    Rule("group_of_one", training.group_of_one),
    Rule("mini_batch", training.mini_batch),
    Rule("batch_over_devices", partial(training.over_devices, "data.train_batch_size")),
    Rule("mini_batch_over_devices", partial(training.over_devices, "actor_rollout_ref.actor.ppo_mini_batch_size")),
    Rule("micro_batch", training.micro_batch),
    Rule("row_over_pass", training.row_over_pass),
    Rule("tensor_parallel", training.tensor_parallel),
    Rule("methods", methods.bad_methods),
    Rule("share_against_name", budget.share_against_name),
    Rule("no_demonstration", budget.no_demonstration),
    Rule("budget", budget.buys_too_little),
    Rule("schedules", methods.schedule_out_of_range),
    Rule("replay", methods.no_game_comes_again),
    Rule("demos", budget.no_such_demonstrations),
    Rule("experience", experience.refusal),
    Rule("no_steps", budget.no_steps),
    Rule("mixture", budget.task_without_games),
    Rule("curriculum", curriculum_settings.refusal),
    Rule("model", model.no_such_model),
    Rule("model_of_its_own", model.another_model),
    Rule("action_too_long", model.action_too_long),
    Rule("context", model.context_too_short),
    Rule("lora", lora.refusal),
    Rule("evaluation", environment.evaluation_refusal),
    Rule("prompt_of_environment", prompt.not_in_this_environment),
    Rule("trainer", training.other_trainer),
    Rule("no_model_saved", training.no_model_saved),
    Rule("async", asynchronous.refusal),
)

WARNINGS: tuple[Rule, ...] = (
    Rule("extended", extension.depends_on_length),
    Rule("equal_rewards", environment.equal_rewards),
    Rule("too_few_turns", environment.too_few_turns),
    Rule("short_horizon", curriculum_settings.short_horizon),
    Rule("methods", methods.doubtful_methods),
    Rule("little_room", prompt.little_room, of_model=True),
    Rule("few_summaries", prompt.few_summaries, of_model=True),
    Rule("set_in_vain", training.set_in_vain),
    Rule("lora_lr", lora.far_lr, of_model=True),
    Rule("useless_samples", environment.useless_samples),
    Rule("sft_of_nothing", budget.sft_of_nothing, of_model=True),
    Rule("bf16", precision.without_instructions, of_model=True),
    Rule("large_on_cpu", model.large_on_cpu, of_model=True),
    Rule("unseen_environment", model.unseen_environment, of_model=True),
)


def check(config: DictConfig, with_model: bool = True) -> list[str]:
    """Check a config and return its warnings.

    Args:
        config: a complete config.
        with_model: False skips warnings about the model.

    Raises:
        ConfigError: the first refusal that applies.
    """
    for rule in CHECKS:
        if message := rule.applies(config):
            raise ConfigError(message)
    return [message for rule in WARNINGS if (with_model or not rule.of_model) and (message := rule.applies(config))]
