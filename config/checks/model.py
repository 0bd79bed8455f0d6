"""Checks of the nodes ``model`` and ``cluster``."""

from __future__ import annotations

from omegaconf import DictConfig

from turngrid.records.models import gpus
from turngrid.records.models.locate import ModelError, environments_of, resolve_model

AT_HOME = {"textworld": "tiny", "alfworld": "tiny_alfworld"}  # environment -> tiny model pre-trained on it


def no_such_model(config: DictConfig) -> str | None:
    try:
        resolve_model(config.model.path)
    except ModelError as error:
        return str(error)
    return None


def another_model(config: DictConfig) -> str | None:
    """Refuse a path in verl's nodes, since the pipeline overwrites it."""
    for node in ("actor_rollout_ref", "critic"):
        if (path := config[node].model.path) != config.model.path:
            return f"{node}.model.path={path} would do nothing: it follows from model.path; set that"
    return None


def no_such_gpu(config: DictConfig) -> str | None:
    try:
        gpus.parse(config.estimate_gpu or "H100")
    except gpus.GpuError as error:
        return str(error)
    if config.estimate_gpu and config.trainer.device == "cpu":
        return (
            f"estimate_gpu={config.estimate_gpu} counts on GPUs and cluster={config.cluster.name} has none: "
            "choose cluster=gpu1 or gpu8"
        )
    return None


def context_too_short(config: DictConfig) -> str | None:
    length = config.data.max_prompt_length + config.data.max_response_length
    if length <= config.model.context:
        return None
    return (
        f"data.max_prompt_length + data.max_response_length = {length} tokens, more than model={config.model.name} can "
        f"attend to (model.context={config.model.context})"
    )


def action_too_long(config: DictConfig) -> str | None:
    action, response = config.env.max_action_tokens, config.data.max_response_length
    if action <= response:
        return None
    return (
        f"env.max_action_tokens={action} is more than data.max_response_length={response}, which leaves no room for "
        "one action: raise the one or lower the other"
    )


def large_on_cpu(config: DictConfig) -> str | None:
    if config.scale.name == "laptop" or config.trainer.device != "cpu":
        return None
    return f"model={config.model.name} on cluster={config.cluster.name} will take days; cluster=gpu1 or gpu8?"


def unseen_environment(config: DictConfig) -> str | None:
    """Warn if a tiny model was not pre-trained on the environment: it spells unknown words letter
    by letter.
    """
    known = environments_of(config.model.path)
    if known is None or config.env.name in known:
        return None
    return (
        f"model={config.model.name} was pre-trained on {' and '.join(known)} alone, "
        f"so env={config.env.name} has words that it never saw and it may well win nothing: "
        f"choose another model, such as model={AT_HOME.get(config.env.name, 'smollm2_135m')}"
    )
