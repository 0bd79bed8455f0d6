"""A game, the tiny model and a process to play in, and what its server was asked."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskRef
from turngrid.rewards.registry import reward
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.failed_episodes import run_with_retries
from turngrid.rollouts.forms.linear import Linear, play_group
from turngrid.rollouts.loop import EpisodeSpec, run_episode
from turngrid.rollouts.policy import ContextLimit, ExpertPolicy, ModelPolicy, Policy
from turngrid.rollouts.row import Row
from turngrid.rollouts.sampling import Sample, SampleRequest, SamplingParams
from turngrid.rollouts.stream import TokenStream
from turngrid.rollouts.tokenise import fill_ids
from turngrid.verl_plugin.rollout.token_stream import TokenCodec
from turngrid.verl_plugin.servers.transformers_server.generator import Generator

TURNS, SAMPLES, REWARD = 6, 4, "dense"
Group = tuple[list[Episode], dict[int, list[SampleRequest]]]


@dataclass
class Recording:
    """The real generator, and what it was asked."""

    generator: Generator
    asked: list[SampleRequest] = field(default_factory=list)

    async def sample(self, request: SampleRequest) -> Sample:
        self.asked.append(request)
        (answer,) = self.generator.generate([request])
        return answer


@dataclass
class Says:
    """A server that samples these texts in turn, cut off at the limit like any other."""

    codec: TokenCodec
    texts: list[str]
    asked: list[SampleRequest] = field(default_factory=list)

    async def sample(self, request: SampleRequest) -> Sample:
        self.asked.append(request)
        ids = [*self.codec.encode(self.texts.pop(0)), self.codec.eos_id][: request.max_tokens]
        return Sample(tuple(ids), tuple([-1.0] * len(ids)))


@dataclass(frozen=True)
class Table:
    """A game, a model, and processes to play in."""

    game: TaskRef
    codec: TokenCodec
    generator: Generator
    runner: asyncio.Runner
    pool: EnvPool

    @property
    def base(self) -> EpisodeSpec:
        style = make_environment("textworld").prompt
        return EpisodeSpec(self.game, style, TURNS, reward(REWARD), step=1, prompt="000001-0000")

    def play(self, form: Linear, spec: EpisodeSpec | None = None, prompt: int = 1024, response: int = 1024) -> Group:
        """A group, and what the server was asked for each sample. ``prompt``: tokens that the first
        message may have, ``response``: all that follows it."""
        asked: dict[int, list[SampleRequest]] = {}

        async def one(spec: EpisodeSpec) -> Episode:
            sampler = Recording(self.generator)
            asked[spec.sample] = sampler.asked
            limit, params = ContextLimit(prompt, response), SamplingParams(1.0, max_action_tokens=6)
            policy = ModelPolicy(sampler, self.codec.decode, params, limit, run_seed=0, entropies=form.entropies)
            return await run_with_retries(
                self.pool.open, lambda session: run_episode(policy, session, spec, self.codec.stream()), 0
            )

        async def play(specs: Sequence[EpisodeSpec]) -> list[Episode | BaseException]:
            return await asyncio.gather(*(one(spec) for spec in specs), return_exceptions=True)

        return self.runner.run(play_group(form, spec or self.base, SAMPLES, 0, play)), asked

    def episode(self, policy: Policy, spec: EpisodeSpec, stream: TokenStream | None) -> Episode:
        async def play() -> Episode:
            return await run_episode(policy, await self.pool.open(), spec, stream)

        return self.runner.run(play())

    def demonstrated(self) -> Episode:
        return fill_ids(self.episode(ExpertPolicy(), self.base, None), self.codec.stream())


def seen_by_server(rows: Sequence[Row]) -> Iterator[tuple[int, ...]]:
    """What precedes each run of sampled tokens in the rows."""
    for row in rows:
        for place, sampled in enumerate(row.mask):
            if sampled and not (place and row.mask[place - 1]):
                yield (*row.prompt_ids, *row.response_ids[:place])
