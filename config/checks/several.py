"""Checks of several actions in an answer, and of what a prompt with ``prompt.history`` shows."""

from __future__ import annotations

from collections.abc import Iterator

from omegaconf import DictConfig

from turngrid.config.prompts import form_of

LIMITING = "prompt.max_actions"


def bad_history(config: DictConfig) -> Iterator[str]:
    prompt, form = config.prompt, form_of(config)
    shown = {"history_chars": prompt.history_chars, "history_thoughts": prompt.history_thoughts}
    for name, value in {**shown, "history_steps": prompt.history_steps}.items():
        if not value:
            continue
        given = f"prompt.{name}={str(value).lower()}"
        if prompt.history is None:
            windows = "" if config.env.window_turns is None else " env.window_turns=null"
            yield f"{given}: prompts repeat earlier turns only with prompt.history; use prompt.history=2{windows}"
        if prompt.history == 0 and name in shown:
            yield f"{given} and prompt.history=0: prompts repeat no earlier turn; use prompt.history=2"
    if prompt.history_thoughts and not form.thinks:
        yield (
            f"prompt.history_thoughts=true: the answers of prompt={prompt.name} have no thoughts; "
            "use prompt=think_action or prompt=react"
        )


def bad_actions(config: DictConfig) -> Iterator[str]:
    prompt, form, most = config.prompt, form_of(config), config.env.max_actions
    if not prompt.action_sep.strip():
        yield f'prompt.action_sep="{prompt.action_sep}": it separates actions; use prompt.action_sep="||"'
    if form.functions and prompt.max_actions > 1:
        yield f"{LIMITING}={prompt.max_actions}: prompt={prompt.name} has one action an answer; use {LIMITING}=1"
    if form.calls and prompt.demo_max_actions is not None:
        reason = f"a demonstration of prompt={prompt.name} has the calls of the expert plan"
        yield f"prompt.demo_max_actions={prompt.demo_max_actions}: {reason}; use prompt.demo_max_actions=null"
    if not form.calls and (prompt.demo_max_actions or 0) > prompt.max_actions:
        yield (
            f"prompt.demo_max_actions={prompt.demo_max_actions}: it must be at most {LIMITING}={prompt.max_actions}; "
            f"use {LIMITING}={prompt.demo_max_actions}"
        )
    if most is not None and form.calls:
        yield f"env.max_actions={most}: the calls of an answer run as one step; use env.max_turns and {LIMITING}"
    elif most is not None and prompt.max_actions == 1:
        yield f"env.max_actions={most}: with {LIMITING}=1 a turn is an action; use env.max_turns={most}"
