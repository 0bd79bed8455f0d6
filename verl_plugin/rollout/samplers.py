"""Samplers that request tokens from verl's rollout servers, and our server's registration."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayActorError
from verl.workers.rollout.replica import RolloutReplicaRegistry

from turngrid.rollouts.sampling import Sample, SampleLost, Sampler, SampleRequest
from turngrid.verl_plugin.servers.transformers_server.launch import server_name

REPLICA = "turngrid.verl_plugin.servers.transformers_server.replica"
RolloutReplicaRegistry.register("transformers", lambda: importlib.import_module(REPLICA).TransformersReplica)


@dataclass
class ServerSampler:
    """Send one request at a time through verl's client, to any server that verl can start.

    With ``seeded`` answers repeat. vLLM may continue an interrupted answer: with a seed it would
    draw the same random numbers again. Our own server (``ours``) gets the episode's id, under which
    it caches the prefix; verl's client gives each turn another.
    """

    client: Any
    seeded: bool = True
    ours: bool = False

    async def sample(self, request: SampleRequest) -> Sample:
        params = {name: getattr(request, name) for name in ("temperature", "top_p", "top_k", "max_tokens")}
        params |= {"seed": request.seed if self.seeded else None, "logprobs": True}
        if self.ours:
            params["episode"] = request.request_id
        prompt_ids = np.array(request.prompt_ids, dtype=np.int32)  # sent with 4 bytes a token
        try:
            output = await self.client.generate(
                request_id=request.request_id, prompt_ids=prompt_ids, sampling_params=params
            )
        except RayActorError as error:
            raise SampleLost(f"a rollout server died: {error}") from error
        if not output.token_ids:
            raise SampleLost(f"{request.request_id}: the server answered nothing ({output.stop_reason})")
        version = output.extra_fields.get("global_steps") or 0
        oldest = output.extra_fields.get("min_global_steps")
        return Sample(output.token_ids, output.log_probs, version, oldest)


@dataclass(frozen=True)
class Counted:
    """A sampler that calls ``report`` after each answer."""

    sampler: Sampler
    report: Callable[[], None]

    async def sample(self, request: SampleRequest) -> Sample:
        sample = await self.sampler.sample(request)
        self.report()
        return sample


async def sample_batch(replica: int, requests: list[SampleRequest]) -> Sequence[Sample | Exception]:
    """Send a lockstep batch's turns as one call to our server, which samples them in order.

    The server is called by its actor name, not through verl's load balancer: lockstep batches are
    assigned to the replicas in turn, and a batch stays with the server that caches its prefixes.
    """
    return await _call(replica, "generate_batch", requests)


async def keep_weights(path: Path) -> None:
    """Let the first server save its weights, which all servers then read from the file.

    Raises:
        SampleLost: the server died.
    """
    await _call(0, "keep_weights", str(path))


async def _call(replica: int, method: str, *arguments: Any) -> Any:
    """Call a method of a rollout server; raise SampleLost if the server died."""
    try:
        server = ray.get_actor(server_name(replica))
    except ValueError as error:  # Ray has no such actor; the call below may raise another ValueError
        raise SampleLost(f"rollout server {replica} died") from error
    try:
        return await getattr(server, method).remote(*arguments)
    except RayActorError as error:
        raise SampleLost(f"rollout server {replica} died: {error}") from error
