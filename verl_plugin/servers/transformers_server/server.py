"""The rollout server: a Ray actor that batches requests and answers with tokens and
log-probabilities.

A process that holds the actor's handle imports this module, as verl's load balancer does. So the
actor imports torch and transformers only when it starts.
"""

from __future__ import annotations

import asyncio
import io
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from turngrid.envs.utils.files import write_whole
from turngrid.rollouts.lockstep import settle
from turngrid.rollouts.sampling import RequestTooLong, Sample, SampleRequest

if TYPE_CHECKING:
    import torch
    from verl.workers.rollout.replica import TokenOutput

ABORTED = Sample([], [], stop_reason="aborted")
GATHER_SECONDS = 0.003  # seconds; single requests this close together share a batch
RULES = ("max_tokens", "seed", "temperature", "top_p", "top_k")  # of verl's sampling parameters
STATS = ("batches", "requests", "sampled_tokens", "generation_seconds", "weight_updates")


class TransformersServer:
    """A rollout server with one model, and a second one once requests name earlier weights.

    Batches run one at a time, in order of arrival, in a thread beside the actor's event loop.

    Args:
        max_batch: limit of ``generate`` requests in a batch; ``generate_batch`` has none.
    """

    def __init__(self, model_path: str, max_batch: int, device: str = "cpu", dtype: str = "float32") -> None:
        import torch
        from transformers.utils.logging import disable_progress_bar

        from turngrid.verl_plugin.servers.transformers_server.generator import Generator, by_weights
        from turngrid.verl_plugin.threads import sampling_thread

        disable_progress_bar()  # an actor's output appears on the trainer's console
        self._new = partial(Generator.from_pretrained, model_path, device=device, dtype=getattr(torch, dtype))
        self._generator, self._sample = self._new(), by_weights
        self._second, self._second_weights = None, ""  # a generator, and the file of its weights
        self._max_batch = max_batch
        self._thread = sampling_thread(self._generator.model.config)
        self._queue: asyncio.Queue[tuple[SampleRequest, asyncio.Future[Sample]]] = asyncio.Queue()
        self._open = asyncio.Event()
        self._open.set()
        self._rejecting = False
        self._serving: asyncio.Task[None] | None = None
        self._step: int | None = None
        self._stats: dict[str, float] = dict.fromkeys(STATS, 0)

    async def generate(
        self, request_id: str, *, prompt_ids: Sequence[int], sampling_params: Mapping[str, Any], **_: Any
    ) -> TokenOutput:
        """Answer one of verl's requests, batched with others that wait.

        Args:
            sampling_params: those of ``ServerSampler``. Under ``episode`` they have the id that all
                turns of an episode share; ``request_id`` is verl's for one turn.

        Raises:
            RequestTooLong: prompt and answer exceed the model's context.
            ValueError: there is no prompt, or the limit is below one token.
        """
        # Imported late: our agent loop calls ``generate_batch``, and without verl the server starts
        # in half the time.
        from verl.workers.rollout.replica import TokenOutput

        request = requested(sampling_params.get("episode", request_id), prompt_ids, sampling_params)
        self._generator.check(request)
        result = await self._in_turn(request)
        step = result.version if result.token_ids else None  # an aborted answer has no weights, and verl asks again
        return TokenOutput(
            token_ids=result.token_ids,
            log_probs=result.logprobs,
            stop_reason="completed" if result.stop_reason == "eos" else result.stop_reason,
            extra_fields={"global_steps": None if self._step is None else step},
        )

    async def generate_batch(self, requests: Sequence[SampleRequest]) -> list[Sample | RequestTooLong]:
        """Answer exactly these requests as one batch, in order; too long ones with their error.

        Raises:
            ValueError: a request has no prompt, or ids that are not in the vocabulary.
        """
        errors = [self._error(request) for request in requests]
        fitting = [request for request, error in zip(requests, errors, strict=True) if error is None]
        results = iter(await self._in_thread(self._generate, fitting))
        return [error or next(results) for error in errors]

    def _error(self, request: SampleRequest) -> RequestTooLong | None:
        try:
            self._generator.check(request)
        except RequestTooLong as error:
            return error
        return None

    async def update_weights(self, weights: dict[str, torch.Tensor], global_steps: int | None) -> None:
        """Load weights. Earlier requests run with the old ones, later requests with the new ones.

        Raises:
            ValueError: weights are missing or unknown; the old ones stay.
        """
        await self._in_thread(self._load, weights, global_steps)

    def _load(self, weights: dict[str, torch.Tensor], global_steps: int | None) -> None:
        self._generator.load_weights(weights.items())
        self._step = global_steps
        self._stats["weight_updates"] += 1

    async def keep_weights(self, path: str) -> None:
        """Save the weights; requests may name the file from now on."""
        await self._in_thread(self._keep, Path(path))

    def _keep(self, path: Path) -> None:
        import torch

        content = io.BytesIO()
        torch.save(self._generator.model.state_dict(), content)
        write_whole(path, content.getvalue())

    async def stats(self) -> dict[str, float]:
        """Return totals since the start, and the peak resident bytes of this process."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return {**self._stats, "peak_memory_bytes": peak}

    async def _in_turn(self, request: SampleRequest) -> Sample:
        while not self._open.is_set():
            if self._rejecting:
                return ABORTED
            await self._open.wait()
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())
        answer: asyncio.Future[Sample] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait((request, answer))
        return await answer

    async def _serve(self) -> None:
        while True:
            batch = [await self._queue.get()]
            await asyncio.sleep(GATHER_SECONDS)
            while not self._queue.empty() and len(batch) < self._max_batch:
                batch.append(self._queue.get_nowait())
            batch = [(request, answer) for request, answer in batch if not answer.done()]
            try:
                asked = [request for request, _ in batch]
                results: Sequence[Sample | Exception] = await self._in_thread(self._generate, asked)
            except Exception as error:  # noqa: BLE001 - each waiting caller gets the error, and the server goes on
                results = [error] * len(batch)
            for (_, answer), result in zip(batch, results, strict=True):
                settle(answer, result)

    def _generate(self, requests: list[SampleRequest]) -> list[Sample]:
        """Sample a batch, in the thread in which weights are loaded: their step is read here."""
        start = time.perf_counter()
        results = self._sample(requests, self._with)
        tokens, seconds = sum(len(result.token_ids) for result in results), time.perf_counter() - start
        for name, count in zip(STATS, (1, len(requests), tokens, seconds), strict=False):
            self._stats[name] += count
        return [replace(result, version=self._step or 0) for result in results]

    def _with(self, weights: str) -> Any:
        """Return the generator with the newest weights (""), or the second one with a file's."""
        import torch

        if not weights:
            return self._generator
        self._second = self._second or self._new()
        if weights != self._second_weights:
            state = torch.load(weights, weights_only=True, map_location=self._second.model.device)
            self._second.load_weights(state.items())
            self._second_weights = weights
        return self._second

    async def _in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)

    async def abort_all_requests(self, reject_request: bool = False, **_: Any) -> None:
        """Answer waiting requests with no tokens ("aborted"). A running batch is finished.

        New requests wait for ``resume_generation``; if ``reject_request``, they are aborted too.
        """
        self._open.clear()
        self._rejecting = reject_request
        while not self._queue.empty():
            settle(self._queue.get_nowait()[1], ABORTED)

    async def resume_generation(self, *_: Any, **__: Any) -> None:
        self._rejecting = False
        self._open.set()

    @property
    def _memories(self) -> list[Any]:
        return [generator.memory for generator in (self._generator, self._second) if generator]

    async def clear_kv_cache(self, *_: Any, **__: Any) -> None:
        await self._in_thread(lambda: [memory.clear() for memory in self._memories])

    # verl frees memory between rollout and update. The model stays; its keys and values, two
    # gigabytes of a SmolLM2 run, would be of no use after the update.
    async def sleep(self, *_: Any, **__: Any) -> None:
        await self._in_thread(lambda: [memory.release() for memory in self._memories])

    async def wake_up(self, *_: Any, **__: Any) -> None: ...

    release_kv_cache = sleep
    resume_kv_cache = start_profile = stop_profile = wake_up


def requested(name: str, prompt_ids: Sequence[int], params: Mapping[str, Any]) -> SampleRequest:
    """Return a request of verl as one of ours."""
    rules = {key: params[key] for key in RULES if key in params}
    return SampleRequest(name, np.asarray(prompt_ids).tolist(), **rules)
