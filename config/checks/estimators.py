"""What an estimator needs: a critic, a teacher, a prompt form that tells kinds of answer apart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from algorithms.chosen import ALGO, method_class
from algorithms.registry import ESTIMATORS, FORM, ON_TURNS, STATES, on_turns
from config.method_settings import HEADS, made
from config.prompts import form_of
from envs.catalogue import cache_root
from records.models.locate import ModelError, resolve_model
from rollouts.prompt_forms.registry import PROMPTS, prompt_class
from rollouts.window import summed_up


def reasons(config: DictConfig) -> Iterator[str]:
    yield from _estimator(config)
    yield from _labels(config)


def _estimator(config: DictConfig) -> Iterator[str]:
    name, verls = config.algo.name, config.algorithm
    if on_turns(name) and verls.adv_estimator != ON_TURNS:
        yield f"algo.name={name} estimates over turns: set algorithm.adv_estimator={ON_TURNS}, not {verls.adv_estimator}"
    if not on_turns(name) and verls.adv_estimator == ON_TURNS:
        yield f"algorithm.adv_estimator={ON_TURNS} needs an estimator over turns: choose one of algo={', '.join(ESTIMATORS)}"
    for key in ("gamma", "lam"):
        if name in ESTIMATORS and verls[key] != 1:
            yield f"algorithm.{key}={verls[key]} is read by estimators over tokens and algo={name} has its own: set algo.{key}"
    heads = made(config).heads()
    if (given := OmegaConf.select(config, HEADS)) not in (None, heads):
        yield f"{HEADS}={given} and algo={name} reads {heads} of the critic: leave it out"
    yield from _teacher(config)
    if config.algo.state not in (None, *STATES):
        yield f"algo.state={config.algo.state} must be one of: {', '.join(STATES)}"


def _labels(config: DictConfig) -> Iterator[str]:
    """Of methods that tell kinds of answer apart, which one prompt form alone has."""
    told = form_of(config).labels
    named = [(ALGO, config.algo.name)] if on_turns(config.algo.name) else []
    named += [(slot, name) for slot in ("shaping", "credit") for name in config.get(slot) or {}]
    for slot, name in named:
        kind = method_class(slot, str(name), {} if slot == ALGO else config[slot][name])
        if (wanted := getattr(kind, "labels", told)) != told:
            fitting = [f"prompt={form}" for form in PROMPTS if prompt_class(form).labels == wanted]
            yield (
                f"{slot}={name} tells answers of {', '.join(wanted)} apart, which prompt={config.prompt.name} does not read: choose "
                f"{' or '.join(fitting) or 'a prompt form with these labels'}"
            )
        if getattr(kind, "labels", ()) and (form := summed_up(config.get(FORM))):
            yield f"{slot}={name} tells kinds of answer apart and a summary of rollout_form={form} is none: choose rollout_form=linear"


def _teacher(config: DictConfig) -> Iterator[str]:
    """Who stands in the reference policy's place, where the estimator needs one."""
    if "teacher" not in made(config).needs():
        return
    asked, path = f"algo={config.algo.name}", config.algo.teacher
    if not path:
        yield f"{asked} learns from a teacher: set algo.teacher, to a run folder, a model folder or a Hugging Face name"
    try:
        teacher = resolve_model(str(path), cache_root())
    except ModelError as error:
        yield str(error).replace("model.path=", "algo.teacher=")
        return
    if _other_tokens(teacher, str(config.model.path)):
        yield f"algo.teacher={path} has other tokens than model.path={config.model.path}, and judges each token"
    if config.model.lora_rank:
        yield f"{asked} has a model of its own for a teacher and model.lora_rank={config.model.lora_rank} makes verl ask the policy's: set it to null"
    if config.algorithm.kl_penalty not in ("kl", "k1"):
        yield f"{asked} learns from the difference of log-probs: set algorithm.kl_penalty=kl, not {config.algorithm.kl_penalty}"


def _other_tokens(teacher: str, policy: str) -> bool:
    """As far as both can be had on this disk; a policy that cannot has a check of its own."""
    try:
        files = [Path(folder) / "tokenizer.json" for folder in (teacher, resolve_model(policy, cache_root()))]
    except ModelError:
        return False
    if not all(file.exists() for file in files):
        return False
    ours, theirs = (json.loads(file.read_text(encoding="utf-8")) for file in files)
    return bool(ours != theirs)
