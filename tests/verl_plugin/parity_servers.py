"""What the parity suite asks of a rollout server, through verl's own calls."""

import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ray
import torch
from heads_of_32 import model_with_heads_of_32
from plain_model import TINY
from verl.workers.config import HFModelConfig, RolloutConfig
from verl.workers.rollout.base import get_rollout_class
from verl.workers.rollout.replica import TokenOutput, get_rollout_replica_class

from turngrid.verl_plugin.servers import vllm_cpu
from turngrid.verl_plugin.servers.transformers_server.replica import TransformersReplica, WeightSync


class TinyModel:
    """All that our replica reads of verl's model config."""

    path = TINY


@dataclass
class Served:
    """verl's replica and the trainer's side of its weight sync. ``generate`` is what verl's client
    offers."""

    replica: Any
    sync: Any
    model: str = TINY

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


async def transformers_server() -> Served:
    config = RolloutConfig(
        name="transformers", max_num_seqs=64, response_length=16, tensor_model_parallel_size=1, dtype="float32"
    )
    replica = TransformersReplica(0, config, TinyModel(), gpus_per_node=1)
    await replica.launch_servers()
    return Served(replica, WeightSync(config, TinyModel(), None))


def end(replica: TransformersReplica) -> None:
    """Its name is free when this returns: files share a Ray."""
    ray.kill(replica.server_handle, no_restart=True)


@asynccontextmanager
async def vllm_server() -> AsyncIterator[Served]:
    """verl's own vLLM server and weight sync, on the CPU build of vLLM."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(model_with_heads_of_32(Path(folder)))
        config = RolloutConfig(
            name="vllm",
            max_num_seqs=64,
            prompt_length=1024,
            response_length=1024,
            max_model_len=2048,
            tensor_model_parallel_size=1,
            dtype="float32",
            engine_kwargs={"vllm": vllm_cpu.ENGINE},
            **vllm_cpu.SETTINGS,
        )
        model = HFModelConfig(path=path)
        trainer: Any = ray.remote(TrainingProcess).options(num_gpus=1).remote(config, model)
        replica = get_rollout_replica_class("vllm")(0, config, model, gpus_per_node=1)
        await replica.init_hybrid(SimpleNamespace(workers=[trainer]))
        yield Served(replica, SyncThrough(trainer), path)


class TrainingProcess:
    """The part of verl's training process that sends weights: a Ray actor on a logical GPU."""

    def __init__(self, config: RolloutConfig, model: HFModelConfig) -> None:
        os.environ |= {"RANK": "0", "RAY_LOCAL_WORLD_SIZE": "1"}
        self.sync = get_rollout_class("vllm", "async")(config, model, None)

    async def update_weights(self, state: dict[str, torch.Tensor], step: int) -> None:
        await self.sync.update_weights(iter(state.items()), global_steps=step)


@dataclass
class SyncThrough:
    trainer: Any

    async def update_weights(self, weights: Any, global_steps: int) -> None:
        await self.trainer.update_weights.remote(dict(weights), global_steps)
