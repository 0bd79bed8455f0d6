"""The README beside a shipped model's weights, and the success rates that it reports."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from tqdm import tqdm
from transformers import AutoModelForCausalLM

from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskRef
from turngrid.records.models.locate import load_whole
from turngrid.records.statistics import Interval, wilson
from turngrid.rollouts.chat_settings import ChatSettings
from turngrid.rollouts.loop import EpisodeSpec
from turngrid.rollouts.policy import ContextLimit
from turngrid.rollouts.sampling import SamplingParams
from turngrid.verl_plugin.rollout.local_rollouts import LoadedModel, Rules

TEMPERATURES = (0.0, 0.4, 0.7)
MAX_ACTION_TOKENS = 16
LIMIT = ContextLimit(prompt=512, response=1536)


def measure(model: Path, task: str, games: int, env: str = "textworld") -> dict[float, Interval]:
    """Return the success rate on the first ``games`` validation games, by temperature (0: greedy).

    One sample a game, rolled out as in a run's evaluation. Test games are never used.
    """
    evaluation_set = Catalogue(make_environment(env)).tasks(task, "validation", games)
    return asyncio.run(_measure(model, task, env, evaluation_set))


async def _measure(model: Path, task: str, env: str, evaluation_set: list[TaskRef]) -> dict[float, Interval]:
    environment = make_environment(env)
    max_turns = environment.max_turns(task)
    specs = [EpisodeSpec(game, environment.prompt, max_turns) for game in evaluation_set]
    loaded = LoadedModel(str(model), "cpu", ChatSettings())
    success = {}
    async with EnvPool(env, 1, 60.0) as pool:
        for temperature in TEMPERATURES:
            rules = Rules(SamplingParams(temperature, max_action_tokens=MAX_ACTION_TOKENS), LIMIT, seed=0)
            with tqdm(total=len(specs), desc=f"temperature {temperature}", unit="game") as bar:
                episodes = await loaded.roll_out(specs, rules, pool, bar.update)
            success[temperature] = wilson(sum(each.won for each in episodes), len(episodes))
    return success


def fill_card(page: str, folder: Path, success: Mapping[float, Interval], **fields: object) -> str:
    """Fill a card's placeholders: the model's size, a row for each temperature, and ``fields``."""
    model = load_whole(AutoModelForCausalLM, str(folder))
    rows = [f"| {heat or 'greedy'} | {interval.percent()} |" for heat, interval in success.items()]
    size = {"parameters": model.num_parameters(), "vocabulary": model.config.vocab_size}
    return page.format(**size, rows="\n".join(rows), **fields)
