"""Methods and prompt forms with the settings of their YAML, without composing a config."""

from typing import Any

from omegaconf import OmegaConf

from turngrid.algorithms.chosen import is_schedule, method_class
from turngrid.algorithms.registry import ALGO, SLOTS
from turngrid.config import method_settings, prompts
from turngrid.envs.extensions import CONF
from turngrid.rollouts.prompt_forms.form import PromptForm
from turngrid.rollouts.prompt_forms.registry import prompt_form

# What the files of methods refer to, as algo=grpo and scale=laptop have it
AROUND = {
    "seed": 0,
    "algo": {"name": "grpo"},
    "scale": {"name": "laptop"},
    "algorithm": {"norm_adv_by_std_in_grpo": True},
    "env": {"max_action_tokens": 16},
    "data": {"max_response_length": 4096},
    "actor_rollout_ref": {"actor": {"clip_ratio_low": 0.2, "clip_ratio_high": 0.2, "clip_ratio_c": 3.0}},
}
for resolver in (method_settings.in_algo, method_settings.in_paper, prompts.of_answers):
    OmegaConf.register_new_resolver(resolver.__name__, resolver, replace=True)


def usual(slot: str, name: str, **changes: Any) -> dict[str, Any]:
    """Return the settings of a method; a schedule among them is its first number, 1."""
    file: Any = OmegaConf.load(CONF / slot / f"{name}.yaml") or {}
    if slot == ALGO:
        plain: Any = OmegaConf.to_container(file.algo, resolve=False)
        file = {key: value for key, value in plain.items() if key != "name"}
    elif slot in file:  # a file that sets keys of verl too
        file = file[slot][name]
    whole: Any = OmegaConf.to_container(OmegaConf.create({**AROUND, slot: {name: file}}), resolve=True)
    kind = method_class(slot, name, {})
    return {key: 1.0 if is_schedule(kind, key, value) else value for key, value in whole[slot][name].items()} | changes


def method(slot: str, name: str, **changes: Any) -> Any:
    """Return a method by its name with the settings of its file."""
    return method_class(slot, name, {})(**usual(slot, name, **changes))


def of_words(slot: str, words: str) -> Any:
    """Return a method as ``method`` does, of its name and settings: ``name key=value ...``."""
    name, *settings = words.split()
    return method(slot, name, **OmegaConf.to_container(OmegaConf.from_dotlist(settings)))  # type: ignore[arg-type]


def form_of(name: str, **changes: Any) -> PromptForm:
    """Return a prompt form by its name with the settings of its file."""
    return prompt_form({"name": name, **changes})


def filled(nodes: dict[str, Any]) -> dict[str, Any]:
    """Return nodes of slots: our methods with their files' settings, beside those given."""

    def settings(slot: str, name: str, given: dict[str, Any] | None) -> dict[str, Any]:
        return usual(slot, name, **(given or {})) if name in SLOTS[slot] else given or {}

    return {
        slot: {name: settings(slot, name, own) for name, own in node.items()} if slot in SLOTS and node else node
        for slot, node in nodes.items()
    }
