"""Early experience: the model draws alternatives to the expert's actions, and rows for SFT are made of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from tqdm import tqdm

from config.experience import writer
from envs.registry import make_environment
from envs.types import Observation, TaskRef
from envs.utils.bar import ticking_bar
from records.process.exit_codes import Failure, say
from records.process.variables import run_stage
from rollouts.chat_policy import ChatPolicy, EndpointError
from rollouts.episode import Episode
from rollouts.policy import TurnContext
from rollouts.prompt_forms.registry import prompt_form
from rollouts.store import read_episodes, write_episodes
from rollouts.stream import user
from tasks.demonstrations import episodes_file
from tasks.early_experience import (
    REFLECTION,
    alternatives_file,
    kind_of,
    question,
    reflection_row,
    rows_file,
    world_model_row,
)
from tasks.splits import read_tasks, task_file

AT_ONCE = 16  # questions to the writer
THOUGHT_TOKENS = 256

Pair = tuple[Episode, Episode]  # a demonstration and an alternative to one of its actions


def make_rows(config: DictConfig, folder: Path, model: str) -> None:
    """Write what SFT learns from besides the demonstrations. What was drawn already is not drawn again.

    Args:
        model: what SFT begins with, a folder or a Hugging Face name.

    Raises:
        StageFailed: the process that draws ended badly.
        Failure: the writer does not answer.
    """
    if not alternatives_file(folder).exists():
        _draw(config, folder, model)
    demonstrations = {episode.task: episode for episode in read_episodes(episodes_file(folder))}
    pairs = [(demonstrations[episode.task], episode) for episode in read_episodes(alternatives_file(folder))]
    if kind_of(config) == REFLECTION:
        rows = _reflected(config, folder, pairs)
    else:
        rows = [world_model_row(alternative) for _, alternative in pairs if alternative.final_observation.strip()]
    write_episodes(rows_file(folder), rows)


def _draw(config: DictConfig, folder: Path, model: str) -> None:
    settings = OmegaConf.create(OmegaConf.to_container(config, resolve=True))
    OmegaConf.update(settings, "run", {"folder": str(folder), "model": model}, force_add=True)
    file = folder / "episodes" / "alternatives.yaml"
    OmegaConf.save(settings, file)
    with ticking_bar(desc="alternatives", bar_format="{desc}: {elapsed}"):
        run_stage(config, folder, "alternatives", "experiments.stages.alternatives", [str(file)])
    file.unlink()


def _reflected(config: DictConfig, folder: Path, pairs: Sequence[Pair]) -> list[Episode]:
    form, functions = prompt_form(config.prompt), make_environment(config.env.name, config.env).prompt.functions
    tasks = {task.key: task for task in read_tasks(task_file(folder, "demonstrations"))}
    with ticking_bar(total=len(pairs), desc="reflections", unit="thought") as bar:
        try:
            reasons = asyncio.run(_ask(config, pairs, tasks, bar))
        except EndpointError as error:
            raise Failure(f"demos.writer: {error}") from error
    told = zip(pairs, reasons, strict=True)
    rows = [
        reflection_row(other, shown.turns[len(other.prefix)].action, why, form, functions)
        for (shown, other), why in told
    ]
    if left_out := rows.count(None):
        say(f"note: {left_out} of {len(rows)} reflections are left out: prompt={form} cannot say them")
    return [row for row in rows if row is not None]


async def _ask(config: DictConfig, pairs: Sequence[Pair], tasks: dict[str, TaskRef], bar: tqdm) -> list[str]:
    """A thought for each pair, in their order."""
    endpoint, gate = writer(config), asyncio.Semaphore(AT_ONCE)
    async with endpoint.client() as client:
        policy = ChatPolicy(endpoint, client, temperature=1.0, max_tokens=THOUGHT_TOKENS, run_seed=config.seed)

        async def think(pair: Pair) -> str:
            async with gate:
                told = [user(question(*pair))]
                task, other = tasks[pair[1].task], pair[1]
                place = (task, Observation(""), len(other.prefix), other.sample, 0, f"reflect {task.key}")
                answer = await policy.act(TurnContext(told, [], *place))
            bar.update()
            return answer.text

        return list(await asyncio.gather(*map(think, pairs)))
