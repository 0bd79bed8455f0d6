"""How often a policy wins validation games (never test games), through the same code as a run's evaluation."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tqdm import tqdm

from envs.catalogue import Catalogue
from envs.pool import EnvPool
from envs.registry import make_environment
from envs.types import TaskRef
from records.statistics import Interval, wilson
from rollouts.chat_settings import ChatSettings
from rollouts.loop import EpisodeSpec
from rollouts.model_policy import ContextLimit
from rollouts.sampling import SamplingParams
from verl_plugin.rollout.local_rollouts import LoadedModel, Rules, roll_out_set

TEMPERATURES = (0.0, 0.4, 0.7)
MAX_ACTION_TOKENS = 16
LIMIT = ContextLimit(prompt=512, response=1536)


def measure(model: Path, task: str, games: int, env: str = "textworld") -> dict[float, Interval]:
    """Share of the first ``games`` validation games won at each temperature; 0 is greedy. One sample a game."""
    evaluation_set = Catalogue(make_environment(env)).tasks(task, "validation", games)
    return asyncio.run(_measure(model, task, env, evaluation_set))


async def _measure(model: Path, task: str, env: str, evaluation_set: list[TaskRef]) -> dict[float, Interval]:
    environment = make_environment(env)
    specs = [EpisodeSpec(game, environment.prompt, environment.max_turns(task)) for game in evaluation_set]
    loaded = LoadedModel(str(model), "cpu", ChatSettings())
    async with EnvPool(env, 1, 60.0) as pool:
        found = {}
        for temperature in TEMPERATURES:
            rules = Rules(SamplingParams(temperature, max_action_tokens=MAX_ACTION_TOKENS), LIMIT, seed=0)
            with tqdm(total=len(specs), desc=f"temperature {temperature}", unit="game") as bar:
                episodes = await roll_out_set(loaded, specs, rules, pool, bar.update)
            found[temperature] = wilson(sum(episode.won for episode in episodes), len(episodes))
        return found
