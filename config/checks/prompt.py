"""Checks of the prompt form: with the environment and with other settings."""

from __future__ import annotations

from collections.abc import Iterator

from omegaconf import DictConfig

from turngrid.algorithms.registry import FORM
from turngrid.config.prompts import form_of, several_rows
from turngrid.envs.registry import make_environment
from turngrid.rollouts.window import Summaries, window_of
from turngrid.tasks.evaluation_sets import env_node, tested

THINKING = "use prompt=think_action or prompt=react"


def bad_prompt(config: DictConfig) -> Iterator[str]:
    prompt, form = config.prompt, form_of(config)
    if not (form.train_thoughts or form.thinks):
        yield f"prompt.train_thoughts=false: the answers of prompt={prompt.name} have no thoughts; {THINKING}"
    if prompt.thinking and not form.thinks:
        yield f"prompt.thinking=true: the answers of prompt={prompt.name} have no thoughts; {THINKING}"
    if prompt.history is not None and config.env.window_turns is not None:
        yield (
            f"prompt.history={prompt.history} and env.window_turns={config.env.window_turns}: both say how much of an "
            "episode is seen; use prompt.history=null or env.window_turns=null"
        )


def not_in_this_environment(config: DictConfig) -> Iterator[str]:
    """Check the run's environment and those of its evaluation sets."""
    yield from not_where_evaluated(config, str(config.env.name))


def not_where_evaluated(config: DictConfig, *also: str) -> Iterator[str]:
    """Check the environments of the evaluation sets and those in ``also``."""
    for name in dict.fromkeys([*also, *(env for env, _ in tested(config))]):
        environment = make_environment(name, env_node(config, name))
        if config.prompt.admissible and not environment.lists_actions:
            reason = f"env={name} cannot list the actions that it accepts"
            yield f"prompt.admissible=true: {reason}; use prompt.admissible=false"
        if form_of(config).calls and not environment.prompt.functions:
            yield f"prompt={config.prompt.name}: the actions of env={name} are phrases, not functions; {THINKING}"


def little_room(config: DictConfig) -> Iterator[str]:
    """Warn if thoughts may use up the tokens of an episode that has one row."""
    env, room, form = config.env, config.data.max_response_length, form_of(config)
    one_row = (form.thinks or form.parts) and not several_rows(config)
    if one_row and env.max_turns * env.max_action_tokens > room:
        yield (
            f"data.max_response_length={room}: with answers of env.max_action_tokens={env.max_action_tokens} an "
            f"episode ends out of context after {room // env.max_action_tokens} of {env.max_turns} turns; "
            "use prompt.history=2, which gives each turn a row of its own"
        )


def few_summaries(config: DictConfig) -> Iterator[str]:
    """Warn if the answers of all rows together are fewer than the turns of an episode."""
    env, rules = config.env, window_of(config.env, form_of(config), config.get(FORM))
    if not isinstance(rules, Summaries) or rules.most is None:
        return
    by_tokens = rules.tokens and max(1, rules.tokens // env.max_action_tokens)
    a_row = min(answers for answers in (rules.turns, by_tokens) if answers)
    if (turns := a_row * (rules.most + 1)) < env.max_turns:
        key = f"{FORM}.{next(iter(config[FORM]))}.most"
        yield (
            f"{key}={rules.most}: with {a_row} answers of env.max_action_tokens={env.max_action_tokens} in a row, an "
            f"episode ends out of context after {turns} of {env.max_turns} turns; use a higher {key}"
        )
