"""Checks of the nodes ``model`` and ``cluster``, and of the folders that a run writes to."""

import os
from collections.abc import Iterator
from pathlib import Path

from turngrid.config.prompts import ON_CPUS
from turngrid.config.values.values import shown
from turngrid.records.models import gpus
from turngrid.records.models.locate import ModelError, environments_of
from turngrid.records.models.shape import chat_template
from turngrid.records.process.exit_codes import Refusal
from turngrid.records.run_folder import name_parts
from turngrid.tasks.run import Run

LONGEST = 255  # maximum bytes of a file name on every file system
ADDED = len("-s4294967295-01234567.000")  # bytes for seed, hash, and the number that .old/ adds
ALTERNATE = "roles must alternate"  # of Gemma 2 and 3, Llama 2 and Mistral
TINY = ("tiny", "tiny_alfworld", "tiny_all")  # pre-trained on games; the narrowest first


def estimate_gpu(run: Run) -> Iterator[str]:
    config = run.config
    try:
        gpus.parse(config.estimate_gpu or "H100")
    except Refusal as error:
        yield str(error)
    if config.estimate_gpu and config.trainer.device == "cpu":
        cluster = config.cluster.name
        yield f"estimate_gpu={config.estimate_gpu}: cluster={cluster} has no GPU; use cluster=gpu1 or cluster=gpu8"


def bad_model(run: Run) -> Iterator[str]:
    config = run.config
    try:
        own = chat_template(config.model.path)
        if ALTERNATE in (run.chat.template or own):
            reason = "its chat template does not render two messages of the user in a row, by which turns are joined"
            use = "actor_rollout_ref.model.custom_chat_template=TEMPLATE, the same without that condition"
            yield f"model.path={config.model.path}: {reason}; use {use}"
    except ModelError as error:
        yield str(error)
    for node in ("actor_rollout_ref", "critic"):  # the pipeline overwrites these
        if (path := config[node].model.path) != config.model.path:
            yield f"{node}.model.path={path}: it follows from model.path; use model.path={path}"
    action, data = config.env.max_action_tokens, config.data
    prompt, response = data.max_prompt_length, data.max_response_length
    if action > response:
        yield f"env.max_action_tokens={action}: a row holds no action; use data.max_response_length={action} or more"
    if prompt + response > config.model.context:
        reason = f"model={config.model.name} can attend to model.context={config.model.context} tokens"
        yield f"data.max_prompt_length={prompt} and data.max_response_length={response}: {reason}; use lower ones"


def doubtful_model(run: Run) -> Iterator[str]:
    """Warn of a large model on CPUs, and of a tiny model that does not know the environment."""
    config = run.config
    model, env, known = config.model, config.env.name, environments_of(config.model.path)
    if config.scale.name not in ON_CPUS and config.trainer.device == "cpu":
        yield f"cluster={config.cluster.name}: model={model.name} takes days on CPUs; use cluster=gpu1 or cluster=gpu8"
    if known is not None and env not in known:
        other = next((name for name in TINY if env in (environments_of(f"asset://{name}") or ())), "smollm2_135m")
        reason = f"it was pre-trained on {', '.join(known)} alone and has never seen the words of env={env}"
        yield f"model={model.name}: {reason}; use another model, such as model={other}"


def unusable_folders(run: Run) -> Iterator[str]:
    for key, folder in {"output_dir": run.config.output_dir, "env.cache_dir": run.config.env.cache_dir}.items():
        if folder is not None and (reason := _reason(folder)):
            yield f"{key}={folder} {reason}; use another folder"


def long_name(run: Run) -> Iterator[str]:
    parts = name_parts(run.config)
    key, word = max(parts.items(), key=lambda part: len(part[1].encode()))
    length = len("-".join(parts.values()).encode()) + ADDED
    if length > LONGEST:
        yield f"{key}={shown(word)}: its run folder's name has {length} bytes, over {LONGEST}; use a shorter name"


def _reason(folder: str) -> str | None:
    """Return why a folder cannot be written to, or cannot be made in its nearest parent."""
    if not folder.strip():
        return "is empty"
    try:
        path = Path(folder).expanduser().absolute()
        there = next(parent for parent in (path, *path.parents) if parent.exists())
    except (OSError, RuntimeError, ValueError) as error:  # a name that is too long, an unknown user's home, a null byte
        return f"is no path ({error})"
    if not there.is_dir():
        return "is a file" if there == path else f"lies below {there}, which is a file"
    return None if os.access(there, os.W_OK) else f"cannot be written to ({there})"
