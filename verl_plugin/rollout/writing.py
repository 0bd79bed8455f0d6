"""Texts that the policy writes for methods between two steps (``turngrid.algorithms.slots``)."""

import asyncio
from collections.abc import Sequence

from turngrid.algorithms.slots import Request
from turngrid.rollouts.sampling import Sample, Sampler, SampleRequest, request_id
from turngrid.rollouts.seeds import request_seed
from turngrid.rollouts.stream import user
from turngrid.verl_plugin.rollout.agent_loop import TurngridAgentLoop
from turngrid.verl_plugin.rollout.samplers import BatchSampler
from turngrid.verl_plugin.rollout.token_stream import TokenCodec

WRITING = "writing"  # stands for the prompt in ids and seeds
Written = tuple[str, int]  # a text and the number of its tokens


def sample_request(loop: TurngridAgentLoop, step: int, number: int, request: Request) -> SampleRequest:
    """Return the request for a text, sampled as in training."""
    rollout = loop.config.actor_rollout_ref.rollout
    return SampleRequest(
        request_id=request_id(step, WRITING, number),
        prompt_ids=fitted(loop.codec, request, loop.limit.prompt + loop.limit.response - request.length),
        max_tokens=request.length,
        temperature=rollout.temperature,
        top_p=rollout.top_p,
        top_k=rollout.top_k,
        seed=request_seed(loop.config.seed, step, WRITING, number, 0),
    )


def fitted(codec: TokenCodec, request: Request, room: int) -> list[int]:
    """Return the ids of the prompt; a transcript that is too long loses its first lines."""
    lines = list(request.lines)
    while len(ids := codec.first_prompt([user("\n".join([*lines, request.question]))])) > room and lines:
        lines = lines[1 + len(lines) // 8 :]
    return ids


async def written(codec: TokenCodec, requests: list[SampleRequest], sampler: BatchSampler | Sampler) -> list[Written]:
    """Sample the texts; one for which there is no room is empty.

    Raises:
        SampleLost: a server died.
    """
    if isinstance(sampler, BatchSampler):
        samples: Sequence[Sample | BaseException] = await sampler(requests)
    else:
        samples = await asyncio.gather(*map(sampler.sample, requests))
    return [
        (codec.decode(one.token_ids).strip(), len(one.token_ids)) if isinstance(one, Sample) else ("", 0)
        for one in samples
    ]
