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
from parity_servers import Served, vllm_server
from plain_model import TINY, Plain

from turngrid.envs.types import TaskRef
from turngrid.verl_plugin.rollout.token_stream import TokenCodec

# Slow: of our server, test_engines.py, test_server.py and test_whole_run.py show the same in parts
pytestmark = pytest.mark.slow
ROOT, HERE = Path(TINY).parents[1], Path(__file__).parent
BOUND = 1e-4  # nats
LIMIT = 12  # tokens a turn


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
