"""Checks of verl's keys for estimators, losses and corrections, and of a teacher."""

import json
from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from turngrid.algorithms.registry import ALGO, CLUSTER, ESTIMATORS, LOSS_MODE, ON_TURNS, SLOTS, on_turns
from turngrid.config.method_settings import HEADS, first_fitting, own_pass
from turngrid.config.prompts import one_row, several_rows
from turngrid.envs.games.catalogue import cache_root
from turngrid.records.models.locate import ModelError, resolve_model
from turngrid.tasks.run import Run

LOSS = "actor_rollout_ref.actor.policy_loss.loss_mode"
ROW_MEAN = "seq-mean-token-mean"
CORRECTION = "algorithm.rollout_correction"
BOUNDS = {"k1": "0.999_1.001", "k2": "0.01", "k3": "0.01"}  # verl's presets


def verls_keys(run: Run) -> Iterator[str]:
    """Refuse values of verl's keys that are wrong for every method."""
    config = run.config
    if OmegaConf.select(config, LOSS) == LOSS_MODE and not config.get("loss"):
        first = next(iter(SLOTS["loss"]))
        yield f"{LOSS}={LOSS_MODE}: it stands for a loss of ours and none is chosen; use loss={first}"
    for key in ("actor_rollout_ref.actor.loss_agg_mode", "critic.loss_agg_mode"):
        if OmegaConf.select(config, key) == ROW_MEAN and (rows := several_rows(run)):
            reason = "it is a mean over rows, and an episode has several"
            yield f"{key}={ROW_MEAN} and {rows}: {reason}; use {key}=token-mean or {one_row(rows)}"
    if config.distillation.enabled:
        word = first_fitting(ALGO, lambda kind: "teacher" in kind.needs)
        yield f"distillation.enabled=true: verl's teacher servers are not supported; use algo={word} algo.teacher=MODEL"
    if config.algorithm.filter_groups.enable:
        sampler = first_fitting("filter", lambda kind: hasattr(kind, "sampler"))
        yield f"algorithm.filter_groups.enable=true: verl ignores max_num_gen_batches; use filter=[{sampler}]"


def reasons(run: Run) -> Iterator[str]:
    config, methods, key = run.config, run.methods, "algorithm.adv_estimator"
    name, asked = config.algo.name, config.algorithm.adv_estimator
    if on_turns(name) and asked != ON_TURNS:
        yield f"{key}={asked}: algo.name={name} estimates over turns; use {key}={ON_TURNS}"
    if not on_turns(name) and asked == ON_TURNS:
        yield f"{key}={ON_TURNS}: algo={name} does not estimate over turns; use algo={' or '.join(ESTIMATORS)}"
    if (given := OmegaConf.select(config, HEADS)) not in (None, heads := methods.heads()):
        yield f"{HEADS}={given}: algo={name} reads {heads} of the critic; use {HEADS}={heads}"
    if "teacher" in methods.needs():
        yield from _teacher(config)
    if config.algo.state == CLUSTER and not any(hasattr(one, "states") for one in methods.of("library", 1).values()):
        one = f"library={next(iter(SLOTS['library']))}"
        yield f"algo.state={CLUSTER}: no library has clusters; use {one} or algo.state=null"


def _teacher(config: DictConfig) -> Iterator[str]:
    """Check the teacher model, which replaces the reference policy."""
    path = config.algo.teacher
    if not path:
        yield f"algo={config.algo.name}: it learns from a teacher; use algo.teacher=FOLDER or a Hugging Face name"
    try:
        tokens = _tokens(str(path))
    except ModelError as error:
        yield str(error).replace("model.path=", "algo.teacher=")
        return
    try:
        own = _tokens(str(config.model.path))
    except ModelError:  # a later check refuses it
        return
    if tokens and own and tokens != own:
        yield f"algo.teacher={path}: it has other tokens than model.path={config.model.path}; use one with the same"


def _tokens(model: str) -> object:
    """Return a model's tokenizer, or None if it has no ``tokenizer.json``."""
    file = Path(resolve_model(model, cache_root())) / "tokenizer.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def bad_correction(run: Run) -> Iterator[str]:
    """Refuse what verl refuses in mid-step, or leaves out without a word."""
    node = run.config.algorithm.rollout_correction
    use = f"use {CORRECTION}.bypass_mode=false or correction=token_tis"
    if node.bypass_mode and node.rollout_is:
        reason = "with bypass_mode=true the loss has no importance weights"
        yield f"{CORRECTION}.rollout_is={node.rollout_is}: {reason}; {use}"
    if node.bypass_mode and own_pass(run.config, run.methods.needs()):
        yield f"{CORRECTION}.bypass_mode=true: a method reads what the trainer's own pass computes; {use}"
    if not node.rollout_rs:
        return
    algo, rejection = run.config.algo.name, f"{CORRECTION}.rollout_rs={node.rollout_rs}"
    dropped_in_part = "token" in node.rollout_rs or several_rows(run)  # else the whole episode
    if dropped_in_part and run.algorithm.grain == "token" and not on_turns(algo):
        yield f"{rejection} and algo={algo}: a dropped token or row loses its reward; use correction=icepop"
    kind, bound, key = str(node.rollout_rs)[-2:], node.rollout_rs_threshold, f"{CORRECTION}.rollout_rs_threshold"
    inverted = kind == "k1" and isinstance(bound, float) and bound < 1  # verl takes 1 / bound as the lower one
    if bound is None or inverted or (isinstance(bound, str) and kind != "k1"):
        reason = f"{node.rollout_rs} needs {'bounds of a ratio' if kind == 'k1' else 'one upper bound'}"
        yield f"{key}={bound}: {reason}; use {key}={BOUNDS[kind]}"


def cut_samples(run: Run) -> Iterator[str]:
    """Warn of a cut of the distribution, after which the gradient is biased."""
    key, share = "actor_rollout_ref.rollout.top_p", run.config.actor_rollout_ref.rollout.top_p
    if share < 1:
        reason = "the loss does not know of the cut, and no correction= repairs it (docs/mismatch.md)"
        yield f"{key}={share:g}: {reason}; use {key}=1"
