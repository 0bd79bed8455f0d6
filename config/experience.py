"""Early experience (docs/budget.md): keys that follow from ``demos.experience``, and its checks."""

from collections.abc import Iterator

from omegaconf import DictConfig, OmegaConf

from turngrid.config.prompts import one_row, several_rows
from turngrid.rollouts.chat_policy import Endpoint, EndpointError
from turngrid.tasks.early_experience import ALTERNATIVES, REFLECTION, WORLD_MODEL
from turngrid.tasks.run import Run

WRITER = {"endpoint": "demos.writer", "endpoint_model": "demos.writer_model", "key_env": "demos.writer_key_env"}
ITS_OWN = ("demos.alternatives", *WRITER.values(), "budget.experience_cost")


def fill_in(config: DictConfig) -> None:
    """Set the number of alternatives at each state, and their cost: that of an episode for each."""
    demos, budget = config.demos, config.budget
    if not demos.experience:
        return
    demos.alternatives = demos.alternatives or ALTERNATIVES[demos.experience]
    if budget.experience_cost is None:
        budget.experience_cost = demos.alternatives * budget.episode_cost


def writer(config: DictConfig) -> Endpoint:
    """Return the endpoint that writes reflections; an EndpointError names our keys."""
    demos = config.demos
    try:
        return Endpoint(demos.writer or "", demos.writer_model or "", demos.writer_key_env or "")
    except EndpointError as error:
        message = str(error)
        for word, key in WRITER.items():
            message = message.replace(f"{word}=", f"{key}=")
        raise EndpointError(message) from error


def bad_experience(run: Run) -> Iterator[str]:
    config, demos, kind, form = run.config, run.config.demos, run.config.demos.experience, run.prompt
    asked, steps = f"demos.experience={kind}", config.model.sft.epochs
    given = {key: value for key in ITS_OWN if (value := OmegaConf.select(config, key)) is not None}
    if not kind:
        yield from (f"{key}={value}: nothing reads it; use demos.experience too" for key, value in given.items())
        return
    if not run.allocation.demonstrations:
        yield f"{asked}: budget={config.budget.name} buys no demonstrations; use budget=sft_rl"
    if demos.source != "expert":
        yield f"{asked} and demos.source={demos.source}: it replays expert plans; use demos.source=expert"
    if key := several_rows(run):
        yield f"{asked} and {key}: it replays turns, of which rows leave some out; use {one_row(key)}"
    if kind == WORLD_MODEL:
        for key in WRITER.values():
            if key in given:
                yield f"{key}={given[key]}: {asked} writes nothing; use demos.experience={REFLECTION}"
        if steps < 2:
            yield f"model.sft.epochs={steps}: {asked} takes the first for predictions; use model.sft.epochs=2 or more"
        return
    if not form.thinks or form.calls:
        yield f"{asked} and prompt={config.prompt.name}: it teaches thoughts; use prompt=think_action or prompt=react"
    if not demos.writer:
        yield f"{asked}: a chat endpoint writes the thoughts; use demos.writer=http://HOST/v1 demos.writer_model=NAME"
    try:
        writer(config)
    except EndpointError as error:
        yield str(error)
