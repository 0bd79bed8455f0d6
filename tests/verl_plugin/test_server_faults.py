"""What a rollout server may do to real episodes: refuse one, or die under all of them."""

import asyncio
import json
import os
import shutil
import signal
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import small
from plain_model import TINY, Plain

from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskRef
from turngrid.rollouts.episode import Episode, Outcome
from turngrid.rollouts.failed_episodes import EpisodeFailed, run_with_retries
from turngrid.rollouts.lockstep import LockstepBatch
from turngrid.rollouts.loop import EpisodeSpec, run_episode
from turngrid.rollouts.policy import ContextLimit, ModelPolicy
from turngrid.rollouts.sampling import SamplingParams
from turngrid.verl_plugin.rollout.samplers import sample_batch
from turngrid.verl_plugin.rollout.token_stream import TokenCodec
from turngrid.verl_plugin.servers.transformers_server import launch

EPISODES, TURNS, TOKENS = 12, 6, 8
REPLICA = 3
ROLLOUT = SimpleNamespace(max_num_seqs=64, dtype="float32")
SMALL_CONTEXT = 300


async def play_all(codec: TokenCodec, games: list[TaskRef], turns: int = TURNS) -> list[Any]:
    """As a worker plays: two lockstep batches, each of which asks for all its turns in one call."""
    lockstep_batches = [LockstepBatch(EPISODES // 2, partial(sample_batch, REPLICA)) for _ in range(2)]

    async def one(pool: EnvPool, number: int) -> Episode:
        params = SamplingParams(0.7, max_action_tokens=TOKENS)
        spec = EpisodeSpec(games[number % 3], make_environment("textworld").prompt, turns, sample=number)
        async with lockstep_batches[number % 2].slot(number) as slot:
            policy = ModelPolicy(slot, codec.decode, params, ContextLimit(1024, 1024), run_seed=0)
            return await run_with_retries(pool.open, lambda session: run_episode(policy, session, spec, codec.stream()))

    async with EnvPool("textworld", workers=1, step_deadline_s=60.0) as pool:
        samples = (one(pool, number) for number in range(EPISODES))
        return await asyncio.gather(*samples, return_exceptions=True)


@pytest.fixture(scope="module")
def server(ray_session: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Its model attends to less than the config allows. The last test kills it."""
    model = shutil.copytree(TINY, tmp_path_factory.mktemp("model") / "small")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "max_position_embeddings": SMALL_CONTEXT}))
    return launch.start(REPLICA, str(model), ROLLOUT)


async def test_an_episode_that_is_too_long_ends_alone(server: Any, codec: TokenCodec, games: list[TaskRef]) -> None:
    """The server says so, for those episodes that grew too long."""
    episodes = await play_all(codec, games, turns=12)
    outgrown = [episode for episode in episodes if episode.outcome is Outcome.OUT_OF_CONTEXT]
    assert outgrown and {e.outcome for e in episodes} <= {Outcome.OUT_OF_CONTEXT, Outcome.WON, Outcome.LOST}
    plain = Plain()
    for episode in episodes:
        length = len(episode.prompt_ids) + sum(len(turn.action_ids + turn.context_ids) for turn in episode.turns)
        assert length <= SMALL_CONTEXT
        unseen = [*codec.stream().start([episode.messages[-1]])] if episode in outgrown else []
        assert (length + len(unseen) + TOKENS > SMALL_CONTEXT) == (episode in outgrown)
        small.assert_sampled_by(plain.model, episode.to_dict())
    assert len({len(episode.turns) for episode in outgrown}) > 1, "they ended at different turns"
    assert (await server.stats.remote())["requests"] == sum(len(episode.turns) for episode in episodes)


async def test_a_dead_server_fails_episodes_and_says_why(server: Any, codec: TokenCodec, games: list[TaskRef]) -> None:
    before = (await server.stats.remote())["batches"]
    playing = asyncio.ensure_future(play_all(codec, games, turns=12))
    while (await server.stats.remote())["batches"] < before + 2:
        await asyncio.sleep(0.002)
    os.kill(await server.__ray_call__.remote(lambda _: os.getpid()), signal.SIGKILL)
    failures = [one for one in await playing if not isinstance(one, Episode)]  # others may have ended before
    assert failures and all(isinstance(failure, EpisodeFailed) for failure in failures)
    assert {str(failure).split(":")[0] for failure in failures} == {"failed 4 times, last"}
    assert all(f"rollout server {REPLICA} died" in str(failure) for failure in failures)
