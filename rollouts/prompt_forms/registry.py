"""The forms that ``prompt=NAME`` may name. One of your own is one more line here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from envs.extensions import find
from rollouts.prompt_forms.form import PromptForm
from rollouts.prompt_forms.plain import PLAIN_FORM

PLAIN = "plain"
PROMPTS: dict[str, str] = {
    PLAIN: "rollouts.prompt_forms.plain:Plain",
    "think_action": "rollouts.prompt_forms.think_action:ThinkAction",
    "react": "rollouts.prompt_forms.react:React",
    "tool_call": "rollouts.prompt_forms.tool_call:ToolCall",
    "hiper": "rollouts.prompt_forms.hiper:Hiper",
    "rlvmr": "rollouts.prompt_forms.rlvmr:Rlvmr",
}


def prompt_class(name: str) -> Any:
    """Raises: UnknownName: there is no such form."""
    return find("prompt", name, PROMPTS)


def prompt_form(node: Mapping[str, Any] | None) -> PromptForm:
    """The form that the ``prompt`` node of a config describes.

    Raises:
        UnknownName: there is no such form.
        ValueError: the form refuses its settings.
    """
    if not node:
        return PLAIN_FORM
    kind = prompt_class(str(node["name"]))
    return kind(**{item.name: node[item.name] for item in fields(kind) if item.init and item.name in node})


def told(node: Mapping[str, Any] | None) -> dict[str, Any]:
    """Of ``unusual``, what changes a prompt's words."""
    return {key: value for key, value in unusual(node).items() if key != "train_thoughts"}


def unusual(node: Mapping[str, Any] | None) -> dict[str, Any]:
    """The form and what of its settings is not as usual; nothing in a run without ``prompt=``. Thinking is the chat template's
    (``rollouts.chat_settings``). Raises: UnknownName."""
    if not node:
        return {}
    usual = {item.name: item.default for item in fields(prompt_class(str(node["name"])))} | {"name": PLAIN}
    return {key: value for key, value in node.items() if key in usual and value != usual[key]}
