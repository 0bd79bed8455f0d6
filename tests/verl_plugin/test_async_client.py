"""New weights in the middle of episodes, as an asynchronous trainer brings them: our server, verl's
balancer and client, real games."""

import asyncio
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from parity_servers import TINY, Plain, Served
from transformers import AutoTokenizer
from verl.workers.rollout.router import get_router_handle

from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.registry import make_environment
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.loop import EpisodeSpec, run_episode
from turngrid.rollouts.policy import ContextLimit, ModelPolicy
from turngrid.rollouts.sampling import Sample, SampleRequest, SamplingParams
from turngrid.verl_plugin.rollout.llm_client import client_class
from turngrid.verl_plugin.rollout.samplers import ServerSampler
from turngrid.verl_plugin.rollout.token_stream import TokenCodec

EPISODES, TURNS, TOKENS, TEMPERATURE = 16, 6, 8, 0.7
BREAK = EPISODES * TURNS // 2  # turns that are played before the weights change


def client(served: Served) -> Any:
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": {"name": "transformers", "response_length": TOKENS}}})
    balancer = get_router_handle(servers={served.replica.server_address: served.replica.server_handle})
    return client_class("transformers")(config=config, load_balancer_handle=balancer)


class Counting(ServerSampler):
    """Says when half of all turns have been answered."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.answered, self.half = 0, asyncio.Event()

    async def sample(self, request: SampleRequest) -> Sample:
        sample = await super().sample(request)
        self.answered += 1
        if self.answered >= BREAK:
            self.half.set()
        return sample


@pytest.mark.slow  # what a server does about new weights is in test_server_actor.py
@pytest.mark.asyncio(loop_scope="module")
async def test_episodes_go_on_with_the_new_weights(served: Served) -> None:
    old, new = Plain(), Plain()
    new.learn([list(range(20, 60))])
    await served.update(old.model, 3)
    sampler = Counting(client(served))

    async def new_weights() -> None:
        """As ``colocate_async`` goes from one step to the next."""
        await sampler.half.wait()
        await served.replica.abort_all_requests()
        await served.replica.sleep()
        await served.update(new.model, 4)
        await served.replica.resume_generation()

    episodes, _ = await asyncio.gather(play(sampler), new_weights())
    versions = {version for episode in episodes for turn in episode.turns for version in turn.versions}
    assert versions == {3, 4}
    assert any(episode.versions() == (3, 4) for episode in episodes), "none was broken into"
    for episode in episodes:
        assert_each_turn_is_its_weights_own({3: old, 4: new}, episode)


async def play(sampler: Counting) -> list[Episode]:
    codec = TokenCodec(AutoTokenizer.from_pretrained(TINY), "qwen3")
    games = Catalogue(make_environment("textworld"), None).tasks("w2-o3-q4", "demonstrations", 4, progress=False)

    async def one(pool: EnvPool, number: int) -> Episode:
        params = SamplingParams(TEMPERATURE, max_action_tokens=TOKENS)
        spec = EpisodeSpec(games[number % 4], make_environment("textworld").prompt, TURNS, sample=number)
        policy = ModelPolicy(sampler, codec.decode, params, ContextLimit(1024, 1024), run_seed=0)
        session = await pool.open()
        try:
            return await run_episode(policy, session, spec, codec.stream())
        finally:
            await session.close()

    async with EnvPool("textworld", workers=1, step_deadline_s=60.0) as pool:
        return list(await asyncio.gather(*(one(pool, number) for number in range(EPISODES))))


def assert_each_turn_is_its_weights_own(models: dict[int, Plain], episode: Episode) -> None:
    ids = list(episode.prompt_ids)
    for turn in episode.turns:
        first, last = turn.versions or episode.versions()
        assert first == last, "our server finishes an answer that it has begun"
        expected = models[last].log_probs(ids, turn.action_ids, TEMPERATURE)
        torch.testing.assert_close(torch.tensor(turn.logprobs), expected, atol=1e-4, rtol=0)
        ids += [*turn.action_ids, *turn.context_ids]
