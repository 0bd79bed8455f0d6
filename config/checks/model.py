"""Checks of the nodes ``model`` and ``cluster``."""

from __future__ import annotations

from collections.abc import Iterator

from omegaconf import DictConfig

from turngrid.records.models import gpus
from turngrid.records.models.locate import ModelError, environments_of, resolve_model

AT_HOME = {"textworld": "tiny", "alfworld": "tiny_alfworld"}  # environment -> tiny model pre-trained on it


def estimate_gpu(config: DictConfig) -> Iterator[str]:
    try:
        gpus.parse(config.estimate_gpu or "H100")
    except gpus.GpuError as error:
        yield str(error)
    if config.estimate_gpu and config.trainer.device == "cpu":
        yield (
            f"estimate_gpu={config.estimate_gpu}: cluster={config.cluster.name} has no GPU; "
            "use cluster=gpu1 or cluster=gpu8"
        )


def bad_model(config: DictConfig) -> Iterator[str]:
    try:
        resolve_model(config.model.path)
    except ModelError as error:
        yield str(error)
    for node in ("actor_rollout_ref", "critic"):  # the pipeline overwrites these
        if (path := config[node].model.path) != config.model.path:
            yield f"{node}.model.path={path}: it follows from model.path; use model.path={path}"
    action, prompt, response = (
        config.env.max_action_tokens,
        config.data.max_prompt_length,
        config.data.max_response_length,
    )
    if action > response:
        yield f"env.max_action_tokens={action}: a row holds no action; use data.max_response_length={action} or more"
    if prompt + response > config.model.context:
        yield (
            f"data.max_prompt_length={prompt} and data.max_response_length={response}: model={config.model.name} can "
            f"attend to model.context={config.model.context} tokens; use lower ones"
        )


def doubtful_model(config: DictConfig) -> Iterator[str]:
    """Warn of a large model on CPUs, and of a tiny model that was not pre-trained on the
    environment: it spells unknown words letter by letter.
    """
    model, env, known = config.model, config.env.name, environments_of(config.model.path)
    if config.scale.name != "laptop" and config.trainer.device == "cpu":
        yield f"cluster={config.cluster.name}: model={model.name} takes days on CPUs; use cluster=gpu1 or cluster=gpu8"
    if known is not None and env not in known:
        yield (
            f"model={model.name}: it was pre-trained on {' and '.join(known)} alone and has never seen the words of "
            f"env={env}, so it may win nothing; use another model, such as model={AT_HOME.get(env, 'smollm2_135m')}"
        )
