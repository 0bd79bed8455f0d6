"""Episodes of a checkpoint sampled in this process, with the generator of our rollout server."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

import torch
from transformers import AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from turngrid.envs.hosting.pool import EnvPool
from turngrid.rollouts.chat_settings import ChatSettings
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.failed_episodes import EpisodeFailed, failed_episode, run_with_retries
from turngrid.rollouts.lockstep import LockstepBatch, Slot
from turngrid.rollouts.loop import EpisodeSpec, run_episode
from turngrid.rollouts.policy import ContextLimit, ModelPolicy
from turngrid.rollouts.sampling import Sample, Sampler, SampleRequest, SamplingParams
from turngrid.verl_plugin.rollout.token_stream import TokenCodec
from turngrid.verl_plugin.servers.transformers_server.generator import Generator, by_weights
from turngrid.verl_plugin.servers.transformers_server.key_values import KeyValues
from turngrid.verl_plugin.threads import sampling_thread

LOCKSTEP_SIZE = 64  # episodes in a lockstep batch; two batches alternate


def generator_on(device: str, path: str, dtype: str = "float32") -> Generator:
    """Load a generator; on GPUs in bf16, with half of the free memory for cached prefixes."""
    if device == "cpu":
        return Generator.from_pretrained(path, dtype=getattr(torch, dtype))
    generator = Generator.from_pretrained(path, device=device, dtype=torch.bfloat16)
    generator.memory = KeyValues(generator.model, torch.cuda.mem_get_info()[0] // 2)
    return generator


@dataclass(frozen=True)
class Rules:
    params: SamplingParams
    limit: ContextLimit
    seed: int  # of all requests
    models: Mapping[str, str] = field(default_factory=dict)  # folders of opponents that are models, by name


class LoadedModel:
    """A checkpoint's generator in a separate thread, and its tokenizer.

    Opponents have generators of their own, loaded when they are first asked.
    """

    def __init__(
        self, path: str, device: str, chat: ChatSettings, marks: Sequence[str] = (), dtype: str = "float32"
    ) -> None:
        disable_progress_bar()
        self.generator = generator_on(device, path, dtype)
        self._generators, self._load = {"": self.generator}, partial(generator_on, device, dtype=dtype)
        self.context = self.generator.context
        self.codec = codec_of(path, self.generator.model.config.model_type, chat, marks)
        self._thread = sampling_thread(self.generator.model.config)

    async def __call__(self, requests: list[SampleRequest]) -> list[Sample]:
        sample = partial(by_weights, requests, self._generator_of)
        return await asyncio.get_running_loop().run_in_executor(self._thread, sample)

    def _generator_of(self, path: str) -> Generator:
        if path not in self._generators:
            self._generators[path] = self._load(path)
        return self._generators[path]

    async def roll_out(
        self, specs: Sequence[EpisodeSpec], rules: Rules, pool: EnvPool, done: Callable[[], object]
    ) -> list[Episode]:
        """Sample each spec once, in two alternating lockstep batches; call ``done`` after each."""
        gate = asyncio.Semaphore(2)

        async def run_batch(batch: Sequence[EpisodeSpec]) -> list[Episode]:
            async with gate:
                lockstep = LockstepBatch(len(batch), self)
                slots = (lockstep.slot(index) for index in range(len(batch)))
                return list(await asyncio.gather(*map(in_slot, batch, slots)))

        async def in_slot(spec: EpisodeSpec, slot: Slot) -> Episode:
            async with slot:
                return await play_one(self.codec, spec, slot, rules, pool, done)

        starts = range(0, len(specs), LOCKSTEP_SIZE)
        batches = await asyncio.gather(*(run_batch(specs[start : start + LOCKSTEP_SIZE]) for start in starts))
        return list(chain.from_iterable(batches))


def codec_of(path: str, model_type: str, chat: ChatSettings, marks: Sequence[str]) -> TokenCodec:
    tokenizer = AutoTokenizer.from_pretrained(path)
    chat.apply(tokenizer)
    return TokenCodec(tokenizer, model_type, dict(chat.kwargs), marks)


async def play_one(
    codec: TokenCodec, spec: EpisodeSpec, sampler: Sampler, rules: Rules, pool: EnvPool, done: Callable[[], object]
) -> Episode:
    """Sample an episode; if the environment fails, return a record of the error."""
    policy = ModelPolicy(sampler, codec.decode, rules.params, rules.limit, rules.seed)
    model = rules.models.get(spec.opponent)
    opponent, stream = replace(policy, weights=model) if model else None, codec.stream
    try:
        episode = await run_with_retries(
            pool.open,
            lambda session: run_episode(
                policy, session, spec, stream(), stream() if opponent else None, rules.seed, opponent
            ),
        )
    except EpisodeFailed as error:
        episode = failed_episode(spec, policy.name, error)
    done()
    return episode
