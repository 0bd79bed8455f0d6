"""The rollout server: as an object in this process, and as verl's replica in a real Ray session."""

import asyncio
import math
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import ray
import torch
from omegaconf import OmegaConf
from parity_servers import Served, TinyModel
from transformers import AutoModelForCausalLM
from verl.workers.config import RolloutConfig
from verl.workers.rollout.replica import TokenOutput

from turngrid.verl_plugin.servers.transformers_server.generator import Generator, RequestTooLong, Sample, SampleRequest
from turngrid.verl_plugin.servers.transformers_server.launch import devices_of_replica, replicas
from turngrid.verl_plugin.servers.transformers_server.replica import WeightSync, server_name
from turngrid.verl_plugin.servers.transformers_server.server import TransformersServer

TINY = str(Path(__file__).parents[2] / "assets" / "tiny")
MIB = 2**20
PROMPT = [4, 5, 6, 7, 8, 9]


def serve(scenario: Callable[[TransformersServer], Awaitable[Any]], max_batch: int = 64) -> Any:
    """Run a scenario against a server of its own, in one event loop."""

    async def run() -> Any:
        return await scenario(TransformersServer(TINY, max_batch))

    return asyncio.run(run())


def ask(server: TransformersServer, name: str, **params: Any) -> Awaitable[TokenOutput]:
    return server.generate(name, prompt_ids=PROMPT, sampling_params={"temperature": 1.0, "max_tokens": 7, **params})


def expected(*requests: SampleRequest) -> list[tuple[list[int], list[float]]]:
    return [(result.token_ids, result.logprobs) for result in Generator.from_pretrained(TINY).generate(requests)]


def test_requests_that_come_together_share_batches_and_keep_their_rules() -> None:
    async def scenario(server: TransformersServer) -> tuple[list[TokenOutput], dict[str, Any]]:
        outputs = await asyncio.gather(*(ask(server, f"r{i}", **rules(i)) for i in range(20)))
        return outputs, await server.stats()

    def rules(i: int) -> dict[str, Any]:
        cut = {"top_p": 0.9, "top_k": 50} if i % 2 else {}
        return {"max_tokens": 1 + i % 6, "seed": i, "temperature": 0.7 * (i % 3), **cut}

    outputs, stats = serve(scenario, max_batch=8)
    for i, output in enumerate(outputs):
        [(tokens, logprobs)] = expected(SampleRequest(f"r{i}", PROMPT, **rules(i)))
        assert output.token_ids == tokens and output.log_probs == pytest.approx(logprobs, abs=1e-5)
        assert output.stop_reason in ("completed", "length") and output.extra_fields == {"global_steps": None}
    assert stats["batches"] == 3, "8 + 8 + 4"
    assert stats["requests"] == 20
    assert stats["sampled_tokens"] == sum(len(output.token_ids) for output in outputs)


def test_the_turns_of_an_episode_share_one_cached_prefix() -> None:
    """verl gives each turn an id of its own; the episode's is among the sampling parameters."""

    async def scenario(server: TransformersServer) -> tuple[list[TokenOutput], int]:
        answers = [await ask(server, f"turn {number}", seed=3, episode="a") for number in range(2)]
        return answers, len(server._generator.memory)

    (first, again), prefixes = serve(scenario)
    assert first.token_ids == again.token_ids and prefixes == 1


def test_generate_batch_runs_that_list_in_that_order() -> None:
    requests = [SampleRequest(f"r{i}", PROMPT[: 1 + i % 5], 1 + i % 4, temperature=1.0, seed=i) for i in range(70)]

    async def scenario(server: TransformersServer) -> tuple[list[Sample], dict[str, Any]]:
        answers = await server.generate_batch(requests)
        return answers, await server.stats()

    answers, stats = serve(scenario, max_batch=8)
    assert stats["batches"] == 1, "whatever max_batch says"
    assert [(answer.token_ids, answer.logprobs) for answer in answers] == expected(*requests)


def test_what_cannot_be_done_is_refused_and_the_server_goes_on() -> None:
    async def scenario(server: TransformersServer) -> TokenOutput:
        context = server._generator.context
        with pytest.raises(RequestTooLong, match=f"context holds {context}"):
            await server.generate("long", prompt_ids=[5] * context, sampling_params={"max_tokens": 1})
        batch = [SampleRequest("good", PROMPT, 7, seed=1), SampleRequest("long", [5], 9000)]
        fits, long = await server.generate_batch(batch)
        assert isinstance(long, RequestTooLong)
        assert fits.token_ids == expected(batch[0])[0][0]
        with pytest.raises(ValueError, match="beyond the vocabulary"):
            await server.generate("alien", prompt_ids=[10**6], sampling_params={"max_tokens": 1})
        return await ask(server, "good", seed=1)

    assert serve(scenario).token_ids == expected(SampleRequest("good", PROMPT, 7, seed=1))[0][0]


def test_after_an_abort_new_requests_wait_for_the_resume() -> None:
    async def scenario(server: TransformersServer) -> tuple[list[TokenOutput], bool, TokenOutput, TokenOutput]:
        await server.update_weights(AutoModelForCausalLM.from_pretrained(TINY).state_dict(), 3)
        waiting = [asyncio.ensure_future(ask(server, f"w{i}", seed=i)) for i in range(3)]
        await asyncio.sleep(0)  # in the queue, and not yet in a batch
        await server.abort_all_requests(reject_request=False)
        late = asyncio.ensure_future(ask(server, "late", seed=9))
        await asyncio.sleep(0.05)
        await server.generate_batch([SampleRequest("behind", PROMPT, 1)])  # which ends after all that was begun
        parked = not late.done()
        await server.resume_generation()
        outputs, answer = await asyncio.gather(*waiting), await late
        await server.abort_all_requests(reject_request=True)
        return outputs, parked, answer, await ask(server, "rejected")

    outputs, parked, late, rejected = serve(scenario)
    assert {output.stop_reason for output in [*outputs[1:], rejected]} == {"aborted"}
    assert rejected.token_ids == []
    assert [one.extra_fields["global_steps"] for one in (late, rejected)] == [3, None]
    assert parked
    assert late.token_ids == expected(SampleRequest("late", PROMPT, 7, seed=9))[0][0]


def test_verls_replica_serves_and_takes_new_weights(served: Served) -> None:
    """Asked and updated as verl does it; the answers are the trainer's model's."""
    model = AutoModelForCausalLM.from_pretrained(TINY)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.9)
    requests = [SampleRequest(f"r{i}", PROMPT[: i + 1], 6, temperature=1.0, seed=i) for i in range(6)]

    async def scenario() -> tuple[list[Sample], TokenOutput, int]:
        replica, server = served.replica, ray.get_actor(server_name(0))
        assert server == replica.server_handle
        before = (await server.stats.remote())["weight_updates"]
        await served.sync.update_weights(iter(model.state_dict().items()), global_steps=4)
        answers = await server.generate_batch.remote(requests)
        single = await server.generate.remote(
            request_id="s", prompt_ids=PROMPT, sampling_params={"seed": 1, "max_tokens": 7}, image_data=None
        )
        await asyncio.gather(replica.sleep(), replica.wake_up(), replica.clear_kv_cache(), replica.release_kv_cache())
        await asyncio.gather(replica.abort_all_requests(reject_request=True))
        await replica.resume_generation()
        return answers, single, (await server.stats.remote())["weight_updates"] - before

    answers, single, updates = asyncio.run(scenario())
    results = Generator(model, [2]).generate(requests)
    assert [answer.token_ids for answer in answers] == [result.token_ids for result in results]
    assert [answer.logprobs for answer in answers] == [pytest.approx(r.logprobs, abs=1e-6) for r in results]
    assert {answer.version for answer in answers} == {4} and updates == 1
    assert single.extra_fields["global_steps"] == 4


def test_only_whole_tensors_are_taken() -> None:
    sync = WeightSync(RolloutConfig(name="transformers"), TinyModel(), None)
    with pytest.raises(ValueError, match="delta_flush"):
        asyncio.run(sync.update_weights(iter(()), wire_format="delta_flush"))


@pytest.mark.parametrize(("sizes", "servers"), [((1, 1, 1), 16), ((2, 1, 1), 8), ((2, 2, 2), 2), ((16, 2, 1), 1)])
def test_servers_share_devices_as_verl_deals_them(sizes: tuple[int, ...], servers: int) -> None:
    names = ("tensor_model_parallel_size", "data_parallel_size", "pipeline_model_parallel_size")
    rollout = OmegaConf.create(dict(zip(names, sizes, strict=True)))
    assert devices_of_replica(rollout) == math.prod(sizes)
    assert replicas(OmegaConf.create({"n_gpus_per_node": 8, "nnodes": 2}), rollout) == servers


# ---- as a Ray actor under load


def weights(step: int) -> dict[str, torch.Tensor]:
    """The tiny model's, scaled so that each step plays differently."""
    state = AutoModelForCausalLM.from_pretrained(TINY).state_dict()
    return {name: tensor * (1 - 0.05 * step) for name, tensor in state.items()}


async def test_each_answer_comes_from_the_weights_that_it_names(served: Served) -> None:
    """Batches, single requests and updates are all in flight together."""
    server, generator = served.replica.server_handle, Generator.from_pretrained(TINY)
    requests = [SampleRequest(f"w{i}", [10 + i] * (1 + i % 40), 1 + i % 12, i % 2, seed=i) for i in range(48)]

    async def alone(request: SampleRequest) -> tuple[list[int], int]:
        params = {name: getattr(request, name) for name in ("temperature", "seed", "max_tokens")}
        output = await served.generate(request.request_id, request.prompt_ids, params)
        return output.token_ids, output.extra_fields["global_steps"]

    async def in_a_batch(request: SampleRequest) -> tuple[list[int], int]:
        (answer,) = await server.generate_batch.remote([request])
        return answer.token_ids, answer.version

    async def update(step: int) -> None:
        await server.update_weights.remote(weights(step), step)

    await update(0)
    calls: list[Any] = []
    for number, request in enumerate(requests):
        calls += [update(number // 12)] if number % 12 == 0 else []
        calls.append((in_a_batch if number % 3 else alone)(request))
    answers = [answer for answer in await asyncio.gather(*calls) if answer]
    assert len({step for _, step in answers}) > 2
    for step in {step for _, step in answers}:
        generator.load_weights(weights(step).items())
        for request, (tokens, named) in zip(requests, answers, strict=True):
            assert named != step or tokens == generator.generate([request])[0].token_ids, (request.request_id, step)


async def test_finished_episodes_leave_no_memory(served: Served) -> None:
    """A step's prefixes take 64 * 600 tokens * 2 KiB = 75 MiB; four steps of them would be 300 MiB.
    In its first steps the process finds its level: how the batches fall together decides when."""
    server, peaks = served.replica.server_handle, []
    for number in range(8):
        await server.generate_batch.remote([SampleRequest(f"{number}-{i}", [7] * 600, 2, seed=i) for i in range(64)])
        await server.update_weights.remote(weights(0), number)
        peaks.append((await server.stats.remote())["peak_memory_bytes"])
    assert peaks[-1] - peaks[3] < 150 * MIB, [peak // MIB for peak in peaks]


async def test_the_actor_says_nothing(served: Served) -> None:
    """What it prints would come between the trainer's lines. Ray's own marks begin with a colon."""
    process = await served.replica.server_handle.__ray_call__.remote(lambda _: os.getpid())
    files = Path(ray.nodes()[0]["ObjectStoreSocketName"]).parents[1].glob(f"logs/worker-*-{process}.*")
    logs = [file.read_text(errors="replace") for file in files]
    ours = [log for log in logs if ":actor_name:TransformersServer" in log]
    assert ours
    assert [line for log in ours for line in log.splitlines() if line.strip() and not line.startswith(":")] == []
