"""Asking verl's rollout servers for tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import ray

from rollouts.sampling import Sample, SampleRequest
from verl_plugin.transformers_server.server import server_name


@dataclass
class ServerSampler:
    """One request at a time through verl's client: any server that verl can start, load-balanced by verl."""

    client: Any

    async def sample(self, request: SampleRequest) -> Sample:
        output = await self.client.generate(
            request_id=request.request_id,
            prompt_ids=list(request.prompt_ids),
            sampling_params={
                "temperature": request.temperature,
                "top_p": request.top_p,
                "top_k": request.top_k,
                "seed": request.seed,
                "max_tokens": request.max_tokens,
                "logprobs": True,
            },
        )
        if not output.token_ids:
            raise RuntimeError(f"{request.request_id}: the server answered nothing ({output.stop_reason})")
        version = output.extra_fields.get("global_steps") or 0
        return Sample(tuple(output.token_ids), tuple(output.log_probs), version)


@dataclass
class BatchSampler:
    """A cohort's turns as one call to our transformers server, which runs exactly that batch in that order.

    The server is asked by its actor name, not through verl's load balancer: cohorts are dealt to the replicas in turn, a
    cohort stays where its prefixes are kept, and the first step need not wait for the balancer's imports.
    """

    replica: int
    _server: Any = field(default=None, repr=False)

    async def __call__(self, requests: list[SampleRequest]) -> Sequence[Sample]:
        self._server = self._server or ray.get_actor(server_name(self.replica))
        answers = await self._server.generate_batch.remote([_wire(request) for request in requests])
        return [_sample(answer) for answer in answers]


def _wire(request: SampleRequest) -> dict[str, Any]:
    return {**asdict(request), "prompt_ids": list(request.prompt_ids)}


def _sample(answer: dict[str, Any]) -> Sample:
    return Sample(tuple(answer["token_ids"]), tuple(answer["log_probs"]), answer.get("global_steps") or 0)
