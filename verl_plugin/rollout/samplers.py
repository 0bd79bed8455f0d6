"""Samplers that request tokens from verl's rollout servers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayActorError

from turngrid.rollouts.sampling import Sample, SampleLost, Sampler, SampleRequest
from turngrid.verl_plugin.servers.transformers_server.launch import server_name


@dataclass
class ServerSampler:
    """Send one request at a time through verl's client, to any server that verl can start.

    Args:
        client: verl's client.
        seeded: give requests seeds, so that answers repeat. False if vLLM may continue an
            interrupted answer: it would draw the same random numbers again.
    """

    client: Any
    seeded: bool = True

    async def sample(self, request: SampleRequest) -> Sample:
        try:
            output = await self._generate(request)
        except RayActorError as error:
            raise SampleLost(f"a rollout server died: {error}") from error
        if not output.token_ids:
            raise SampleLost(f"{request.request_id}: the server answered nothing ({output.stop_reason})")
        version = output.extra_fields.get("global_steps") or 0
        oldest = output.extra_fields.get("min_global_steps")
        return Sample(output.token_ids, output.log_probs, version, oldest)

    async def _generate(self, request: SampleRequest) -> Any:
        return await self.client.generate(
            request_id=request.request_id,
            prompt_ids=np.array(request.prompt_ids, dtype=np.int32),  # sent with 4 bytes a token
            sampling_params={
                "temperature": request.temperature,
                "top_p": request.top_p,
                "top_k": request.top_k,
                "seed": request.seed if self.seeded else None,
                "max_tokens": request.max_tokens,
                "logprobs": True,
            },
        )


@dataclass(frozen=True)
class Counted:
    """A sampler that reports each of its answers to a callback."""

    sampler: Sampler
    report: Callable[[], None]

    async def sample(self, request: SampleRequest) -> Sample:
        sample = await self.sampler.sample(request)
        self.report()
        return sample


@dataclass
class BatchSampler:
    """Send a lockstep batch's turns as one call to our server, which samples them in order.

    The server is called by its actor name, not through verl's load balancer: lockstep batches are
    assigned to the replicas in turn, and a batch stays with the server that caches its prefixes.
    """

    replica: int
    _server: Any = field(default=None, repr=False)

    async def __call__(self, requests: list[SampleRequest]) -> Sequence[Sample | Exception]:
        """Sample a turn of each episode; raise SampleLost if the server died."""
        self._server = self._server or _found(self.replica)
        try:
            return await self._server.generate_batch.remote(requests)
        except RayActorError as error:
            raise SampleLost(f"rollout server {self.replica} died: {error}") from error


async def keep_weights(path: Path) -> None:
    """Let the first server save its weights, which all servers then read from the file.

    Raises:
        SampleLost: the server died.
    """
    try:
        await _found(0).keep_weights.remote(str(path))
    except RayActorError as error:
        raise SampleLost(f"rollout server 0 died: {error}") from error


def _found(replica: int) -> Any:
    try:
        return ray.get_actor(server_name(replica))
    except ValueError as error:
        raise SampleLost(f"rollout server {replica} died") from error
