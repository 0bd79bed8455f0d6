"""Sample episodes of a checkpoint through verl's rollout servers, one per GPU."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import ray
from omegaconf import DictConfig, OmegaConf
from transformers import AutoConfig
from verl.trainer.constants_ppo import get_ppo_ray_runtime_env
from verl.workers.rollout.llm_server import LLMServerManager

from turngrid.envs.hosting.pool import EnvPool
from turngrid.rollouts.chat_settings import ChatSettings
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.loop import EpisodeSpec
from turngrid.verl_plugin.ray_settings import ray_settings
from turngrid.verl_plugin.rollout.local_rollouts import Rules, codec_of, play_one
from turngrid.verl_plugin.rollout.samplers import ServerSampler
from turngrid.verl_plugin.rollout.token_stream import TokenCodec

SHARE = 0.85  # of a GPU's memory, for its server: no trainer runs beside it


@dataclass(frozen=True)
class ServedModel:
    """A checkpoint behind rollout servers."""

    sampler: ServerSampler
    codec: TokenCodec
    context: int  # tokens of the model
    at_once: int  # episodes

    async def roll_out(
        self, specs: Sequence[EpisodeSpec], rules: Rules, pool: EnvPool, done: Callable[[], object]
    ) -> list[Episode]:
        """Sample each spec once, in order; call ``done`` after each episode."""
        gate = asyncio.Semaphore(self.at_once)

        async def play(spec: EpisodeSpec) -> Episode:
            async with gate:
                return await play_one(self.codec, spec, self.sampler, rules, pool, done)

        return list(await asyncio.gather(*map(play, specs)))


@asynccontextmanager
async def served(
    config: DictConfig, path: str, chat: ChatSettings, marks: Sequence[str] = ()
) -> AsyncIterator[ServedModel]:
    """Start the run's rollout servers on its GPUs; stop Ray when the block ends."""
    settings = _settings(config, path)
    ray.init(**ray_settings(settings, sys.executable, get_ppo_ray_runtime_env(settings)))  # as verl's ``run_ppo``
    try:
        manager = await asyncio.to_thread(LLMServerManager.create, settings)
        model, rollout = AutoConfig.from_pretrained(path), settings.actor_rollout_ref.rollout
        own = rollout.name == "transformers"
        sampler = ServerSampler(manager.get_client(), seeded=own or settings.trainer.device == "cpu", ours=own)
        servers = rollout.nnodes * rollout.n_gpus_per_node // rollout.tensor_model_parallel_size
        codec = codec_of(path, model.model_type, chat, marks)
        yield ServedModel(sampler, codec, int(model.max_position_embeddings), servers * int(rollout.max_num_seqs))
    finally:
        ray.shutdown()


def _settings(config: DictConfig, path: str) -> DictConfig:
    """Return the run's config with this model, and with all GPUs for the servers."""
    settings: Any = OmegaConf.create(OmegaConf.to_container(config, resolve=True))
    settings.actor_rollout_ref.model.path = path
    rollout, trainer = settings.actor_rollout_ref.rollout, settings.trainer
    rollout.nnodes, rollout.n_gpus_per_node = trainer.nnodes, trainer.n_gpus_per_node
    rollout.load_format, rollout.free_cache_engine = "auto", False
    if trainer.device == "cuda":
        rollout.gpu_memory_utilization = SHARE
    return settings
