"""What a rollout form cannot be combined with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf

from algorithms.registry import FORM
from config import asynchronous
from config.method_settings import kinds, made
from config.prompts import in_windows
from rollouts.window import SUMMED_UP


def reasons(config: DictConfig) -> Iterator[str]:
    forms, samples = made(config).of(FORM, 1), int(config.actor_rollout_ref.rollout.n)
    for name, form in forms.items():
        if name in SUMMED_UP:
            yield from _summaries(config, name)
        elif (key := in_windows(config)) and not form.windows:
            yield f"rollout_form={name} replays turns, which a window of {key.split('=')[0]} would leave out: set it to null"
        if (mode := asynchronous.mode(config)) != asynchronous.SYNC:
            yield f"rollout_form={name} is for synchronous steps: choose trainer.v1.trainer_mode=sync, not {mode}"
        if form.episodes(samples) < samples:
            yield (
                f"rollout_form={name} samples {form.episodes(samples)} episodes of a prompt and actor_rollout_ref.rollout.n={samples} are to "
                "be learned from: lower it, or raise rollout_form.tree.nodes"
            )
        if form.entropies and config.actor_rollout_ref.rollout.name != "transformers":
            yield f"rollout_form={name} asks the rollout server for entropies, which vLLM does not tell through verl: choose rollout=transformers"
        yield from _credit_of_form(config, name, form)
        yield from _curriculum_of_form(config, name, form)
    for name, kind in kinds(config, "credit"):
        if getattr(kind, "of_trees", False) and not any(form.branches for form in forms.values()):
            yield f"credit={name} compares the leaves of a tree and no episode branches off: choose rollout_form=tree"


def _summaries(config: DictConfig, form: str) -> Iterator[str]:
    """Of the form that every episode has, validated and evaluated ones too, and so without a schedule."""
    place, data = f"{FORM}.{form}", config.data
    settings: Any = OmegaConf.to_container(config[FORM][form], resolve=True)
    if key := in_windows(config):
        yield f"rollout_form={form} and {key} both say how much of an episode is seen: choose one"
    if scheduled := next((name for name, value in settings.items() if isinstance(value, dict)), None):
        yield f"{place}.{scheduled} follows a schedule and evaluation, which has no steps, sums up too: set one number"
        return
    room = int(data.max_prompt_length) + int(data.max_response_length)
    if (settings["tokens"] or 0) + settings["length"] > room:
        yield (
            f"{place}.tokens={settings['tokens']} and a summary of {settings['length']} tokens have no room in data.max_prompt_length "
            f"+ data.max_response_length = {room}: lower it"
        )


def _credit_of_form(config: DictConfig, name: str, form: Any) -> Iterator[str]:
    for credit, kind in kinds(config, "credit"):
        of_leaves = getattr(kind, "of_trees", False)
        if getattr(kind, "compares", False) and not (of_leaves or form.compares_turns):
            yield (
                f"credit={credit} compares the turns of a group and rollout_form={name} has some of them replayed or shared: choose "
                "rollout_form=linear"
            )


def _curriculum_of_form(config: DictConfig, name: str, form: Any) -> Iterator[str]:
    if config.curriculum.name == "threshold" and not form.whole:
        yield (
            f"curriculum=threshold asks how many episodes were won and those of rollout_form={name} begin after replayed turns: "
            "choose curriculum=phases"
        )
    if config.curriculum.horizon is not None and name == "tcod":
        yield "rollout_form=tcod and curriculum.horizon both say how many turns the episodes of a step have: choose one"
