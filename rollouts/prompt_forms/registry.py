"""The prompt forms that ``prompt=NAME`` accepts. A new form is one more line here."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any

from turngrid.envs.extensions import CONF, find, shipped
from turngrid.rollouts.prompt_forms.form import PromptForm

PLAIN = "plain"
PROMPTS: dict[str, str] = {
    PLAIN: "turngrid.rollouts.prompt_forms.form:Plain",
    "think_action": "turngrid.rollouts.prompt_forms.think_action:ThinkAction",
    "react": "turngrid.rollouts.prompt_forms.react:React",
    "tool_call": "turngrid.rollouts.prompt_forms.tool_call:ToolCall",
    "search_tags": "turngrid.rollouts.prompt_forms.search_tags:SearchTags",
    "hiper": "turngrid.rollouts.prompt_forms.hiper:Hiper",
    "rlvmr": "turngrid.rollouts.prompt_forms.rlvmr:Rlvmr",
}


def prompt_class(name: str) -> Any:
    """Return the class of a form; raise UnknownName if there is none."""
    return find("prompt", name, PROMPTS)


def usual(name: str) -> dict[str, Any]:
    """Return a form's defaults: its YAML's, else its class's, else ``conf/config.yaml``'s."""
    own = {item.name: item.default for item in fields(prompt_class(name)) if item.default is not MISSING}
    return {**_shared(), **own, **shipped("prompt", name)}


@cache
def _shared() -> dict[str, Any]:
    from omegaconf import OmegaConf

    node: Any = OmegaConf.to_container(OmegaConf.load(CONF / "config.yaml"))
    return dict(node["prompt"])


def prompt_form(node: Mapping[str, Any] | None) -> PromptForm:
    """Build the form of a ``prompt`` node; missing settings are the usual ones.

    Raises:
        UnknownName: no form has this name.
        ValueError: a setting is out of range.
    """
    node = node or {"name": PLAIN}
    name = str(node["name"])
    cls, known = prompt_class(name), {**usual(name), **node}
    return cls(**{item.name: known[item.name] for item in fields(cls) if item.init and item.name in known})


PLAIN_FORM = prompt_form(None)


def changed_text(node: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the settings that differ from the defaults and change a prompt's text."""
    return {key: value for key, value in non_default(node).items() if key != "train_thoughts"}


def non_default(node: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the form's name and its settings that differ from the defaults."""
    if not node:
        return {}
    name = str(node["name"])
    known = {item.name for item in fields(prompt_class(name))}
    defaults = {key: value for key, value in usual(name).items() if key in known} | {"name": PLAIN}
    return {key: value for key, value in node.items() if key in defaults and value != defaults[key]}
