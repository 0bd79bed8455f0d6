"""verl's FSDP2 engines on CPUs, with a value head that starts from the run's seed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch
import verl.utils.model
from transformers import AutoModelForTokenClassification
from verl.workers.engine.base import EngineRegistry
from verl.workers.engine.fsdp import transformer_impl

from verl_plugin.action_logits import ActionLogits


@contextmanager
def replaced(module: ModuleType, name: str, value: Any) -> Iterator[None]:
    """``module.name`` is ``value`` inside the block."""
    original = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, original)


class _OnCpu:
    def forward_backward_batch(self, *args: Any, **kwargs: Any) -> Any:
        """OpenMP keeps the number of threads for each calling thread, and Ray calls from one of its own."""
        torch.set_num_threads(int(os.environ.get("TURNGRID_TRAINER_THREADS", "1")))
        return super().forward_backward_batch(*args, **kwargs)  # type: ignore[misc]

    def _build_fsdp_module(self, module: Any) -> Any:
        """verl offloads a reference policy to pinned memory, which needs an accelerator; here it is on the CPU already."""
        with replaced(transformer_impl, "CPUOffloadPolicy", lambda **_: None):
            return super()._build_fsdp_module(module)  # type: ignore[misc]


@EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cpu")
class CpuLanguageModel(ActionLogits, _OnCpu, transformer_impl.FSDPEngineWithLMHead): ...


@EngineRegistry.register(model_type="value_model", backend=["fsdp", "fsdp2"], device="cpu")
class CpuValueModel(_OnCpu, transformer_impl.FSDPEngineWithValueHead):
    def _build_module(self) -> Any:
        torch.manual_seed(int(os.environ.get("TURNGRID_SEED", "0")))  # the head's weights are drawn here
        with replaced(verl.utils.model, "load_valuehead_model", load_value_model):
            return super()._build_module()


def load_value_model(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
    """As verl's, without flash attention, which it asks for whatever the config says."""
    return AutoModelForTokenClassification.from_pretrained(
        local_path,
        dtype=torch_dtype,
        config=model_config,
        trust_remote_code=trust_remote_code,
        attn_implementation="sdpa",
    )
