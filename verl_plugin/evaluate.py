"""The evaluation's process: checkpoints play a panel of games, one play a game.

    python -P -m verl_plugin.evaluate CONFIG.yaml

``CONFIG.yaml`` holds the run's config and ``run.players``: a list of {name, path}; the episodes of each go to
``run.episodes/NAME.jsonl``. No Ray: the same generator as the CPU rollout server, driven in this process.
"""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from tqdm import tqdm
from transformers import AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from envs.pool import EnvPool, pool_of
from envs.registry import world
from envs.types import TaskRef
from experiments.tasks import read_tasks
from rewards.registry import reward
from rollouts.cohort import Cohort, Seat
from rollouts.episode import Episode
from rollouts.loop import EpisodePlan, run_episode
from rollouts.model_policy import ContextLimit, ModelPolicy
from rollouts.retry import EpisodeFailed, failed_episode, play_with_retries
from rollouts.sampling import Sample, SampleRequest, SamplingParams
from rollouts.store import write_episodes
from verl_plugin.token_stream import TokenCodec
from verl_plugin.transformers_server.generator import Generator, GenRequest

COHORT_SIZE = 64  # episodes in the model at once; two cohorts alternate


class Player:
    """A checkpoint that plays: its generator (in a thread of its own) and its tokens."""

    def __init__(self, path: str, config: DictConfig) -> None:
        self.generator = Generator.from_pretrained(path, device=config.run.device)
        tokenizer = AutoTokenizer.from_pretrained(path)
        self.codec = TokenCodec(tokenizer, self.generator.model.config.model_type)
        self._thread = ThreadPoolExecutor(max_workers=1)

    async def __call__(self, requests: list[SampleRequest]) -> list[Sample]:
        batch = [GenRequest(**vars(request)) for request in requests]
        answers = await asyncio.get_running_loop().run_in_executor(self._thread, self.generator.generate, batch)
        return [Sample(tuple(answer.token_ids), tuple(answer.log_probs)) for answer in answers]


async def play_panel(
    player: Player, tasks: list[TaskRef], config: DictConfig, pool: EnvPool, name: str
) -> list[Episode]:
    """All games of the panel once, in its order; two cohorts at a time."""
    bar = tqdm(total=len(tasks), desc=name, unit="game")
    chunks = [tasks[start : start + COHORT_SIZE] for start in range(0, len(tasks), COHORT_SIZE)]
    gate = asyncio.Semaphore(2)

    async def play_chunk(chunk: list[TaskRef]) -> list[Episode]:
        async with gate:
            cohort = Cohort(len(chunk), player)
            seats = [cohort.seat(place) for place in range(len(chunk))]
            plays = [_play(player, task, seat, config, pool, bar) for task, seat in zip(chunk, seats, strict=True)]
            return list(await asyncio.gather(*plays))

    groups = await asyncio.gather(*(play_chunk(chunk) for chunk in chunks))
    bar.close()
    return [episode for group in groups for episode in group]


async def _play(player: Player, task: TaskRef, seat: Seat, config: DictConfig, pool: EnvPool, bar: Any) -> Episode:
    params = SamplingParams(config.eval.temperature, max_action_tokens=config.env.max_action_tokens)
    limit = ContextLimit(config.data.max_prompt_length, config.data.max_response_length)
    policy = ModelPolicy(seat, player.codec.decode, params, limit, config.eval.seed)
    plan = _plan(task, config)
    async with seat:
        try:
            episode = await play_with_retries(
                pool.open, lambda session: run_episode(policy, session, plan, player.codec.stream())
            )
        except EpisodeFailed as error:
            episode = failed_episode(plan, policy.name, error)
    bar.update()
    return episode


def _plan(task: TaskRef, config: DictConfig) -> EpisodePlan:
    place, earned = world(config.env.name, config.env), reward(config.turn_reward.name, config.turn_reward)
    return EpisodePlan(task, place.prompt, config.env.max_turns, earned, grade_unfinished=place.grades_unfinished)


async def evaluate(config: DictConfig) -> None:
    disable_progress_bar()  # "Loading weights": ours says more
    tasks = list(read_tasks(Path(config.run.panel)))
    async with pool_of(config.env) as pool:
        for entry in config.run.players:
            episodes = await play_panel(Player(entry.path, config), tasks, config, pool, entry.name)
            write_episodes(Path(config.run.episodes) / f"{entry.name}.jsonl", episodes)


if __name__ == "__main__":
    loaded = OmegaConf.load(sys.argv[1])
    assert isinstance(loaded, DictConfig)
    asyncio.run(evaluate(loaded))
