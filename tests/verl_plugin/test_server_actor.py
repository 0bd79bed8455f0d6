"""The rollout server as a Ray actor under load: many callers, weight updates in between, and what
it leaves behind."""

import asyncio
import os
import random
from pathlib import Path
from typing import Any

import pytest
import ray
import torch
from parity_servers import Served
from ray.actor import ActorHandle
from transformers import AutoModelForCausalLM

from turngrid.verl_plugin.servers.transformers_server.generator import Generator, RequestTooLong, SampleRequest

ROOT = Path(__file__).parents[2]
TINY = str(ROOT / "assets" / "tiny")
MIB = 2**20


@pytest.fixture(scope="module")
def server(served: Served) -> ActorHandle:
    """Each test begins by sending the weights that it needs."""
    return served.replica.server_handle


@pytest.fixture(scope="module")
def generator() -> Generator:
    return Generator.from_pretrained(TINY)


async def awaited(call: Any) -> Any:
    """Ray's references can be awaited, but are no coroutines, which tasks are made of."""
    return await call


def weights(step: int) -> dict[str, torch.Tensor]:
    """The tiny model's, scaled so that each step plays differently."""
    state = AutoModelForCausalLM.from_pretrained(TINY).state_dict()
    return {name: tensor * (1 - 0.05 * step) for name, tensor in state.items()}


def ragged(count: int, seed: int, name: str = "r") -> list[SampleRequest]:
    """No top-k and no top-p: after random ids many tokens are equally likely to eight digits, and
    which of them would be kept is a matter of rounding, which differs from batch to batch."""
    rng = random.Random(seed)
    return [
        SampleRequest(
            f"{name}{i}",
            [rng.randrange(10, 1500) for _ in range(rng.randrange(1, 120))],
            rng.randrange(1, 17),
            temperature=rng.choice([0.0, 0.4, 1.0]),
            seed=1000 * seed + i,
        )
        for i in range(count)
    ]


async def ask(server: ActorHandle, request: SampleRequest) -> Any:
    names = ("temperature", "top_p", "top_k", "seed", "max_tokens")
    params = {name: getattr(request, name) for name in names}
    return await server.generate.remote(request.request_id, prompt_ids=request.prompt_ids, sampling_params=params)


async def test_64_callers_at_once_share_batches_and_get_their_own_answers(
    server: ActorHandle, generator: Generator
) -> None:
    await server.update_weights.remote(weights(0), 0)
    generator.load_weights(weights(0).items())
    before = await server.stats.remote()
    requests = ragged(64, seed=1)
    answers = await asyncio.gather(*(ask(server, request) for request in requests))
    after = await server.stats.remote()
    assert all(1 <= len(a.token_ids) <= r.max_tokens for r, a in zip(requests, answers, strict=True))
    for request, answer in [*zip(requests, answers, strict=True)][::3]:
        [alone] = generator.generate([request])
        assert answer.token_ids == alone.token_ids
        assert answer.log_probs == pytest.approx(alone.logprobs, abs=1e-5, rel=1e-5)
    assert after["requests"] - before["requests"] == 64
    assert 1 <= after["batches"] - before["batches"] <= 32, "callers that come together are answered together"


async def test_each_answer_comes_from_the_weights_that_it_names(server: ActorHandle, generator: Generator) -> None:
    """Batches, single requests and updates are all in flight together."""
    await server.update_weights.remote(weights(0), 0)
    batches = {f"b{k}-": ragged(4, seed=k, name=f"b{k}-") for k in range(12)}
    singles = ragged(24, seed=77, name="s")
    calls: list[Any] = []
    for turn, batch in enumerate(batches.values()):
        calls += [ask(server, request) for request in singles[2 * turn : 2 * turn + 2]]
        calls.append(server.generate_batch.remote(batch))
        if turn % 3 == 2:
            calls.append(server.update_weights.remote(weights(1 + turn // 3), 1 + turn // 3))
    answers = await asyncio.gather(*(asyncio.ensure_future(awaited(call)) for call in calls))
    seen: list[tuple[SampleRequest, list[int], int]] = []
    rest = iter(singles)
    waiting = iter(batches.values())
    for answer in answers:
        if isinstance(answer, list):
            seen += [(r, a.token_ids, a.version) for r, a in zip(next(waiting), answer, strict=True)]
        elif answer is not None:
            seen.append((next(rest), answer.token_ids, answer.extra_fields["global_steps"]))
    assert len(seen) == 12 * 4 + 24
    steps = {step for _, _, step in seen}
    assert steps <= set(range(5)) and len(steps) > 2
    for step in steps:
        generator.load_weights(weights(step).items())
        for request, tokens, _ in (entry for entry in seen if entry[2] == step):
            assert tokens == generator.generate([request])[0].token_ids, (request.request_id, step)


async def test_a_refused_request_or_update_leaves_the_others_alone(server: ActorHandle, generator: Generator) -> None:
    await server.update_weights.remote(weights(2), 7)
    generator.load_weights(weights(2).items())
    with pytest.raises(ValueError, match="missing"):
        await server.update_weights.remote({"model.norm.weight": torch.ones(64)}, 8)
    good = ragged(6, seed=5)
    too_long = SampleRequest("long", [5] * generator.context, 1)
    *answers, refused = await asyncio.gather(
        *(ask(server, request) for request in [*good, too_long]), return_exceptions=True
    )
    assert isinstance(refused, RequestTooLong)
    assert [a.token_ids for a in answers] == [generator.generate([request])[0].token_ids for request in good]
    assert {a.extra_fields["global_steps"] for a in answers} == {7}


async def test_an_abort_answers_who_waits_and_the_server_goes_on(server: ActorHandle, generator: Generator) -> None:
    await server.update_weights.remote(weights(0), 0)
    generator.load_weights(weights(0).items())
    long = [SampleRequest(f"long{i}", [7] * 100, 200, temperature=1.0, seed=i) for i in range(64)]
    running = asyncio.ensure_future(awaited(server.generate_batch.remote(long)))
    requests = ragged(80, seed=9)
    asked = [asyncio.ensure_future(ask(server, request)) for request in requests]
    await asyncio.sleep(0)  # an actor begins calls in the order in which they were made
    await server.abort_all_requests.remote()
    late = asyncio.ensure_future(ask(server, requests[0]))
    batch = await running
    await server.resume_generation.remote()
    answers = await asyncio.gather(*asked)
    assert all(answer.token_ids for answer in batch), "what runs comes to its end"
    aborted = [answer for answer in answers if answer.stop_reason == "aborted"]
    assert aborted and all(answer.token_ids == [] and answer.log_probs == [] for answer in aborted)
    assert (await late).token_ids == generator.generate([requests[0]])[0].token_ids


async def test_finished_episodes_leave_no_memory(server: ActorHandle) -> None:
    """A step's prefixes take 64 * 600 tokens * 2 KiB = 75 MiB; four steps of them would be 300 MiB.
    In its first steps the process finds its level: how the batches fall together decides when."""

    async def step(number: int) -> int:
        wire = [SampleRequest(f"{number}-{i}", [7] * 600, 2, seed=i) for i in range(64)]
        await server.generate_batch.remote(wire)
        await server.update_weights.remote(weights(0), number)
        return (await server.stats.remote())["peak_memory_bytes"]

    peaks = [await step(number) for number in range(8)]
    assert peaks[-1] - peaks[3] < 150 * MIB, [peak // MIB for peak in peaks]


async def test_the_actor_says_nothing(server: ActorHandle) -> None:
    """What it prints would come between the trainer's lines. Ray's own marks begin with a colon."""
    process = await server.__ray_call__.remote(lambda _: os.getpid())
    files = Path(ray.nodes()[0]["ObjectStoreSocketName"]).parents[1].glob(f"logs/worker-*-{process}.*")
    logs = [file.read_text(errors="replace") for file in files]
    ours = [log for log in logs if ":actor_name:TransformersServer" in log]
    assert ours
    assert [line for log in ours for line in log.splitlines() if line.strip() and not line.startswith(":")] == []
