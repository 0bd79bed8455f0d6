"""Breaks the transfer of weights after the steps of ``FAULTS``, JSON in the environment, as the
``sitecustomize`` of a folder on ``PYTHONPATH``."""

import json
import os
from collections.abc import AsyncIterator
from typing import Any

from wrapt import register_post_import_hook

import turngrid.verl_plugin  # noqa: F401 - its hooks come first

FAULTS = "DOCTOR_FAULTS"


def _break() -> None:
    import torch
    from verl.workers.rollout.utils import ensure_async_iterator

    from turngrid.verl_plugin import lora
    from turngrid.verl_plugin.servers.transformers_server.replica import WeightSync

    usual, scaling, faults, now = WeightSync.update_weights, lora.scaling, json.loads(os.environ[FAULTS]), [""]

    async def rounded(weights: Any) -> AsyncIterator[tuple[str, torch.Tensor]]:
        async for name, tensor in ensure_async_iterator(weights):
            yield name, tensor.to(torch.bfloat16).to(tensor.dtype)

    async def update_weights(self: Any, weights: Any, **how: Any) -> None:
        now[0] = faults.get(str(how["global_steps"]), "")
        if now[0] == "stale":
            async for _ in ensure_async_iterator(weights):
                pass
        else:
            await usual(self, rounded(weights) if now[0] == "dtype" else weights, **how)

    WeightSync.update_weights = update_weights  # type: ignore[method-assign]
    lora.scaling = lambda model: 0.0 if now[0] == "adapter" else scaling(model)


def install() -> None:
    register_post_import_hook(lambda _: _break(), "verl.workers.engine_workers")
