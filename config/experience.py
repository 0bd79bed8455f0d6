"""Early experience (docs/budget.md): keys that follow from ``demos.experience``, and its checks."""

from __future__ import annotations

from collections.abc import Iterator

from omegaconf import DictConfig, OmegaConf

from turngrid.config.errors import first
from turngrid.config.prompts import form_of, one_row, several_rows
from turngrid.envs.utils.names import meant
from turngrid.rollouts.chat_policy import Endpoint, EndpointError
from turngrid.tasks.budget import allocate_budget
from turngrid.tasks.early_experience import ALTERNATIVES, KINDS, REFLECTION, WORLD_MODEL, kind_of

WRITER = {"endpoint": "demos.writer", "endpoint_model": "demos.writer_model", "key_env": "demos.writer_key_env"}
ITS_OWN = ("demos.alternatives", *WRITER.values(), "budget.experience_cost")


def fill_in(config: DictConfig) -> None:
    """Set the number of alternatives and their cost: that of one episode, for an alternative at
    each state.
    """
    if (kind := kind_of(config)) not in KINDS:
        return
    demos, budget = config.demos, config.budget
    demos.alternatives = demos.alternatives or ALTERNATIVES[kind]
    if budget.experience_cost is None:
        budget.experience_cost = demos.alternatives * budget.episode_cost


def writer(config: DictConfig) -> Endpoint:
    """Return the endpoint that writes reflections.

    Raises:
        EndpointError: a setting is wrong; the message names our keys.
    """
    demos = config.demos
    try:
        return Endpoint(demos.writer or "", demos.writer_model or "", demos.writer_key_env or "")
    except EndpointError as error:
        message = str(error)
        for word, key in WRITER.items():
            message = message.replace(f"{word}=", f"{key}=")
        raise EndpointError(message) from error


@first
def refusal(config: DictConfig) -> Iterator[str]:
    if kind_of(config):
        yield from _problems(config)
        return
    for key in ITS_OWN:
        if (value := OmegaConf.select(config, key)) is not None:
            yield f"{key}={value} does nothing without demos.experience: set that too, as to {WORLD_MODEL}"


def _problems(config: DictConfig) -> Iterator[str]:
    kind = str(kind_of(config))
    asked = f"demos.experience={kind}"
    if kind not in KINDS:
        yield f"{asked} must be {' or '.join(KINDS)}{meant(kind, KINDS)}"
    if not allocate_budget(config).demonstrations:
        yield f"{asked} begins with demonstrations and budget={config.budget.name} buys none: choose budget=sft_rl"
    if config.demos.source != "expert":
        yield f"{asked} replays expert plans: set demos.source=expert, not {config.demos.source}"
    if key := several_rows(config):
        yield f"{asked} replays turns, which a window or a summary would leave out: choose {one_row(key)}, not {key}"
    yield from (_of_reflection if kind == REFLECTION else _of_world_model)(config, asked)


def _of_world_model(config: DictConfig, asked: str) -> Iterator[str]:
    for key in WRITER.values():
        if (value := OmegaConf.select(config, key)) is not None:
            yield f"{key}={value} does nothing with {asked}, which writes nothing: choose demos.experience={REFLECTION}"
    if config.model.sft.epochs < 2:
        yield (
            f"{asked} takes the first of model.sft.epochs={config.model.sft.epochs} for predictions: "
            "set 2 or more, so that one imitates"
        )


def _of_reflection(config: DictConfig, asked: str) -> Iterator[str]:
    form = form_of(config)
    if not form.thinks or form.calls:
        yield (
            f"{asked} teaches thoughts and prompt={config.prompt.name} has none of its own: "
            "choose prompt=think_action or prompt=react"
        )
    if not config.demos.writer:
        yield (
            f"{asked} needs a chat endpoint that writes thoughts: "
            "set demos.writer=http://HOST/v1 and demos.writer_model=NAME"
        )
    try:
        writer(config)
    except EndpointError as error:
        yield str(error)
