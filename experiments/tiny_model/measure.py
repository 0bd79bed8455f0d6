"""How often a policy wins validation games (never the test panel), through the same code as a run's evaluation."""

from __future__ import annotations

import asyncio
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from envs.catalogue import Catalogue
from envs.pool import EnvPool
from envs.registry import world
from envs.types import TaskRef
from experiments.statistics import Interval, wilson
from verl_plugin.evaluate import Player, play_panel

TEMPERATURES = (0.0, 0.4, 0.7)
MAX_ACTION_TOKENS = 16


def measure(model: Path, task: str, games: int) -> dict[float, Interval]:
    """Share of the first ``games`` validation games won at each temperature; 0 is greedy. One play a game."""
    panel = Catalogue(world("textworld")).tasks(task, "validation", games)
    return asyncio.run(_measure(model, task, panel))


async def _measure(model: Path, task: str, panel: list[TaskRef]) -> dict[float, Interval]:
    pool = EnvPool("textworld", 1, 60.0)
    player = Player(str(model), _config(task, 0.0))
    try:
        return {
            temperature: await _success(player, panel, _config(task, temperature), pool) for temperature in TEMPERATURES
        }
    finally:
        await pool.close()


async def _success(player: Player, panel: list[TaskRef], config: DictConfig, pool: EnvPool) -> Interval:
    episodes = await play_panel(player, panel, config, pool, f"temperature {config.eval.temperature}")
    return wilson(sum(episode.won for episode in episodes), len(episodes))


def _config(task: str, temperature: float) -> DictConfig:
    return OmegaConf.create(
        {
            "env": {
                "name": "textworld",
                "max_turns": world("textworld").max_turns(task),
                "max_action_tokens": MAX_ACTION_TOKENS,
            },
            "eval": {"temperature": temperature, "seed": 0},
            "data": {"max_prompt_length": 512, "max_response_length": 1536},
            "turn_reward": {"name": "sparse"},
            "run": {"device": "cpu"},
        }
    )
