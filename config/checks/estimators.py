"""Checks of verl's keys for estimators and losses, and of a teacher."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from turngrid.algorithms.registry import ALGO, ESTIMATORS, LOSS_MODE, ON_TURNS, SLOTS, STATES, on_turns
from turngrid.config.method_settings import HEADS, made, that
from turngrid.config.prompts import one_row, several_rows
from turngrid.envs.games.catalogue import cache_root
from turngrid.records.models.locate import ModelError, resolve_model

LOSS = "actor_rollout_ref.actor.policy_loss.loss_mode"
AGGREGATED = "loss_agg_mode"
ROW_MEAN = "seq-mean-token-mean"


def verls_keys(config: DictConfig) -> Iterator[str]:
    """Refuse values of verl's keys that are wrong for every method."""
    if OmegaConf.select(config, LOSS) == LOSS_MODE and not config.get("loss"):
        first = next(iter(SLOTS["loss"]))
        yield f"{LOSS}={LOSS_MODE}: it stands for a loss of ours and none is chosen; use loss={first}"
    for node in ("actor_rollout_ref.actor", "critic"):
        if OmegaConf.select(config, f"{node}.{AGGREGATED}") == ROW_MEAN and (rows := several_rows(config)):
            yield (
                f"{node}.{AGGREGATED}={ROW_MEAN} and {rows}: it is a mean over rows, and an episode has several; use "
                f"{node}.{AGGREGATED}=token-mean or {one_row(rows)}"
            )
    if config.distillation.enabled:
        word = that(ALGO, lambda kind: "teacher" in kind.needs)
        yield f"distillation.enabled=true: verl's teacher servers are not supported; use algo={word} algo.teacher=MODEL"
    if config.algorithm.filter_groups.enable:
        sampler = that("filter", lambda kind: hasattr(kind, "sampler"))
        yield f"algorithm.filter_groups.enable=true: verl ignores max_num_gen_batches; use filter=[{sampler}]"


def reasons(config: DictConfig) -> Iterator[str]:
    name, key = config.algo.name, "algorithm.adv_estimator"
    asked = config.algorithm.adv_estimator
    if on_turns(name) and asked != ON_TURNS:
        yield f"{key}={asked}: algo.name={name} estimates over turns; use {key}={ON_TURNS}"
    if not on_turns(name) and asked == ON_TURNS:
        yield f"{key}={ON_TURNS}: algo={name} does not estimate over turns; use algo={' or '.join(ESTIMATORS)}"
    heads = made(config).heads()
    if (given := OmegaConf.select(config, HEADS)) not in (None, heads):
        yield f"{HEADS}={given}: algo={name} reads {heads} of the critic; use {HEADS}={heads}"
    if "teacher" in made(config).needs():
        yield from _teacher(config)
    if config.algo.state not in (None, *STATES):
        yield f"algo.state={config.algo.state}: unknown; use algo.state={' or '.join(STATES)}"


def _teacher(config: DictConfig) -> Iterator[str]:
    """Check the teacher model, which replaces the reference policy."""
    path = config.algo.teacher
    if not path:
        yield f"algo={config.algo.name}: it learns from a teacher; use algo.teacher=FOLDER or a Hugging Face name"
    try:
        teacher = resolve_model(str(path), cache_root())
    except ModelError as error:
        yield str(error).replace("model.path=", "algo.teacher=")
        return
    if _other_tokens(teacher, str(config.model.path)):
        yield (
            f"algo.teacher={path}: it has other tokens than model.path={config.model.path}; "
            "use a teacher with the same tokens"
        )
    if config.model.lora_rank:
        yield (
            f"model.lora_rank={config.model.lora_rank}: verl would ask the policy in place of algo.teacher; use "
            "model.lora_rank=null"
        )
    if config.algorithm.kl_penalty not in ("kl", "k1"):
        yield (
            f"algorithm.kl_penalty={config.algorithm.kl_penalty}: algo={config.algo.name} learns from a difference of "
            "log-probs; use algorithm.kl_penalty=kl"
        )


def _other_tokens(teacher: str, policy: str) -> bool:
    """Return whether the tokens differ; False if a model is not on this disk, which has a check of
    its own.
    """
    try:
        files = [Path(folder) / "tokenizer.json" for folder in (teacher, resolve_model(policy, cache_root()))]
    except ModelError:
        return False
    if not all(file.exists() for file in files):
        return False
    ours, theirs = (json.loads(file.read_text(encoding="utf-8")) for file in files)
    return bool(ours != theirs)
