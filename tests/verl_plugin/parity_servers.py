"""What the parity suite asks of a rollout server, through verl's own calls; and plain transformers beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from verl.workers.config import RolloutConfig
from verl.workers.rollout.replica import TokenOutput

from verl_plugin.transformers_server.replica import TransformersReplica, WeightSync

TINY = str(Path(__file__).parents[2] / "assets" / "tiny")


class TinyModel:
    """All that our replica reads of verl's model config."""

    path = TINY


@dataclass
class Served:
    """verl's replica and the trainer's side of its weight sync. ``generate`` is what verl's client offers."""

    replica: Any
    sync: Any

    async def generate(
        self, request_id: str, prompt_ids: Sequence[int], sampling_params: dict[str, Any]
    ) -> TokenOutput:
        return await self.replica.server_handle.generate.remote(
            request_id=request_id, prompt_ids=list(prompt_ids), sampling_params=sampling_params
        )

    async def greedy(self, name: str, ids: Sequence[int], limit: int) -> TokenOutput:
        return await self.generate(name, ids, {"temperature": 0.0, "max_tokens": limit, "logprobs": True})

    async def update(self, model: torch.nn.Module, step: int) -> None:
        state = {name: tensor.clone() for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
        await self.sync.update_weights(iter(state.items()), global_steps=step)

    async def through_aborts(self, name: str, ids: Sequence[int], limit: int) -> tuple[list[int], int]:
        """A greedy answer, asked for again where it was cut off, and how often that was: what verl's client for
        asynchronous training does."""
        tokens: list[int] = []
        aborts = 0
        while True:
            output = await self.greedy(name, [*ids, *tokens], limit - len(tokens))
            tokens += output.token_ids
            if output.stop_reason not in ("aborted", "abort") or len(tokens) >= limit:
                return tokens, aborts
            aborts += 1
            await asyncio.sleep(0.05)


@asynccontextmanager
async def transformers_server() -> AsyncIterator[Served]:
    config = RolloutConfig(
        name="transformers", max_num_seqs=16, response_length=16, tensor_model_parallel_size=1, dtype="float32"
    )
    replica = TransformersReplica(0, config, TinyModel(), gpus_per_node=1)
    await replica.launch_servers()
    yield Served(replica, WeightSync(config, TinyModel(), None))


SERVERS: dict[str, Callable[[], AbstractAsyncContextManager[Served]]] = {"transformers": transformers_server}


class Plain:
    """The model as transformers runs it: one row, no cache of ours, no padding."""

    def __init__(self) -> None:
        self.model: Any = AutoModelForCausalLM.from_pretrained(TINY, attn_implementation="eager").eval()

    @torch.no_grad()
    def greedy(self, ids: Sequence[int], limit: int) -> list[int]:
        prompt = torch.tensor([list(ids)])
        mask = torch.ones_like(prompt)
        output = self.model.generate(prompt, attention_mask=mask, max_new_tokens=limit, do_sample=False)
        return output[0, len(ids) :].tolist()

    @torch.no_grad()
    def log_probs(self, ids: Sequence[int], answer: Sequence[int], temperature: float = 1.0) -> torch.Tensor:
        """Of ``answer`` after ``ids``, in nats, from one forward pass."""
        logits = self.model(torch.tensor([[*ids, *answer]])).logits[0, len(ids) - 1 : -1]
        return (logits / temperature).log_softmax(-1).gather(1, torch.tensor(answer)[:, None]).squeeze(1)

    def learn(self, rows: Sequence[Sequence[int]]) -> None:
        """One step of AdamW towards these rows: new weights as training makes them."""
        optimiser = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        loss = sum(self.model(torch.tensor([row]), labels=torch.tensor([row])).loss for row in rows)
        loss.backward()  # type: ignore[union-attr]
        optimiser.step()
        self.model.zero_grad()
