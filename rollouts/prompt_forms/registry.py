"""The prompt forms that ``prompt=NAME`` accepts. A new form is one more line here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from envs.extensions import find
from rollouts.prompt_forms.form import PLAIN_FORM, PromptForm

PLAIN = "plain"
PROMPTS: dict[str, str] = {
    PLAIN: "rollouts.prompt_forms.form:Plain",
    "think_action": "rollouts.prompt_forms.think_action:ThinkAction",
    "react": "rollouts.prompt_forms.react:React",
    "tool_call": "rollouts.prompt_forms.tool_call:ToolCall",
    "hiper": "rollouts.prompt_forms.hiper:Hiper",
    "rlvmr": "rollouts.prompt_forms.rlvmr:Rlvmr",
}


def prompt_class(name: str) -> Any:
    """Return the class of a form. Raises: UnknownName."""
    return find("prompt", name, PROMPTS)


def prompt_form(node: Mapping[str, Any] | None) -> PromptForm:
    """Build the form that a config's ``prompt`` node describes.

    Raises:
        UnknownName: no form has this name.
        ValueError: a setting is out of range.
    """
    if not node:
        return PLAIN_FORM
    kind = prompt_class(str(node["name"]))
    return kind(**{item.name: node[item.name] for item in fields(kind) if item.init and item.name in node})


def changed_text(node: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the non-default settings that change a prompt's text."""
    return {key: value for key, value in non_default(node).items() if key != "train_thoughts"}


def non_default(node: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the form's name and its settings that differ from the default. Raises: UnknownName."""
    if not node:
        return {}
    defaults = {item.name: item.default for item in fields(prompt_class(str(node["name"])))} | {"name": PLAIN}
    return {key: value for key, value in node.items() if key in defaults and value != defaults[key]}
