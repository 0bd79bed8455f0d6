"""Checks of the prompt form: with the environment and with other settings."""

from __future__ import annotations

from collections.abc import Iterator

from omegaconf import DictConfig

from turngrid.algorithms.registry import FORM
from turngrid.config.errors import first
from turngrid.config.prompts import form_of, several_rows
from turngrid.envs.environment import Environment
from turngrid.envs.registry import make_environment
from turngrid.rollouts.window import Summaries, summed_up, window_of
from turngrid.tasks.evaluation_sets import env_node, tested


@first
def bad_prompt(config: DictConfig) -> Iterator[str]:
    prompt, form = config.prompt, form_of(config)
    if not (form.train_thoughts or form.thinks):
        yield f"prompt.train_thoughts=false: the answers of prompt={prompt.name} hold no thoughts; leave it out"
    if prompt.thinking and not form.thinks:
        yield f"prompt.thinking=true: the answers of prompt={prompt.name} hold no thoughts; choose prompt=think_action"
    if prompt.history is not None and config.env.window_turns is not None:
        yield (
            f"prompt.history={prompt.history} and env.window_turns={config.env.window_turns} both say how much of an "
            "episode is seen: choose one"
        )


def not_in_this_environment(config: DictConfig) -> str | None:
    """Check the run's environment and those of its evaluation sets."""
    return not_where_evaluated(config, str(config.env.name))


def not_where_evaluated(config: DictConfig, *also: str) -> str | None:
    """Check the environments of the evaluation sets and those in ``also``."""
    played = dict.fromkeys([*also, *(env for env, _ in tested(config))])
    environments = {name: make_environment(name, env_node(config, name)) for name in played}
    return next((reason for name, env in environments.items() for reason in _lacking(config, name, env)), None)


def _lacking(config: DictConfig, name: str, environment: Environment) -> Iterator[str]:
    if config.prompt.admissible and not environment.lists_actions:
        yield f"prompt.admissible=true: env={name} cannot list the actions that it would accept; leave it out"
    if form_of(config).calls and not environment.prompt.functions:
        yield (
            f"prompt={config.prompt.name} calls functions, and the actions of env={name} are phrases: choose "
            "prompt=think_action or prompt=react"
        )


def little_room(config: DictConfig) -> str | None:
    """Warn if thoughts may use up the tokens of an episode that has one row."""
    env, room = config.env, config.data.max_response_length
    form = form_of(config)
    if not (form.thinks or form.parts) or several_rows(config) or env.max_turns * env.max_action_tokens <= room:
        return None
    return (
        f"an answer may have env.max_action_tokens={env.max_action_tokens} tokens and an episode's row holds "
        f"data.max_response_length={room}: if all are used, an episode ends out of context after "
        f"{room // env.max_action_tokens} of {env.max_turns} turns; prompt.history=2 gives each turn a row of its own"
    )


def few_summaries(config: DictConfig) -> str | None:
    """Warn if the answers of all rows together are fewer than the turns of an episode."""
    env, place = config.env, f"{FORM}.{summed_up(config.get(FORM))}"
    rules = window_of(env, form_of(config), config.get(FORM))
    if not isinstance(rules, Summaries) or rules.most is None:
        return None
    by_tokens = rules.tokens and max(1, rules.tokens // env.max_action_tokens)
    a_row = min(answers for answers in (rules.turns, by_tokens) if answers)
    if (turns := a_row * (rules.most + 1)) >= env.max_turns:
        return None
    return (
        f"a row of {a_row} answers of env.max_action_tokens={env.max_action_tokens} is summed up, "
        f"at most {place}.most={rules.most} times: "
        f"if all are used, an episode ends out of context after {turns} of {env.max_turns} turns; raise {place}.most"
    )
