"""verl's FSDP2 engines on CPUs, with a value head that starts from the run's seed."""

import os
from functools import partial
from typing import Any

import torch
import verl.utils.model
from tensordict import TensorDict
from torch.distributed.fsdp import MixedPrecisionPolicy
from transformers import AutoModelForTokenClassification
from verl.utils import tensordict_utils as tu
from verl.workers.engine.base import EngineRegistry
from verl.workers.engine.fsdp import transformer_impl

from turngrid.records.models.locate import load_whole
from turngrid.verl_plugin.bf16 import round_less
from turngrid.verl_plugin.changes import replaced
from turngrid.verl_plugin.cpu import micro_batches
from turngrid.verl_plugin.cpu.packed_rows import PackedLogits, PackedRows
from turngrid.verl_plugin.threads import give_back, threads
from turngrid.verl_plugin.value_heads import with_heads


class _OnCpu:
    def forward_backward_batch(self, data: TensorDict, loss_function: Any, forward_only: bool = False) -> Any:
        """Run our own micro-batches.

        With several processes verl makes them, since all must have the same number. The number of
        threads is set here, because OpenMP stores it per calling thread and Ray calls from its own
        thread.
        """
        torch.set_num_threads(threads(self.model_config.hf_config, "TRAINER"))  # type: ignore[attr-defined]
        if self.get_data_parallel_size() > 1:  # type: ignore[attr-defined]
            return super().forward_backward_batch(data, loss_function, forward_only)  # type: ignore[misc]
        tu.assign_non_tensor(data, **{micro_batches.BY_IDS: self.by_rows and "response_mask" in data})  # type: ignore[attr-defined]
        prepare = partial(micro_batches.prepare, verls=transformer_impl.prepare_micro_batches)
        with replaced(transformer_impl, "prepare_micro_batches", prepare):
            output = super().forward_backward_batch(data, loss_function, forward_only)  # type: ignore[misc]
        output["model_output"] = micro_batches.in_order(output["model_output"], data)
        return output

    def optimizer_step(self) -> Any:
        """Free the gradients after the step, and return free memory to the system.

        The rollout server samples next, in the same memory.
        """
        norm = super().optimizer_step()  # type: ignore[misc]
        self.optimizer_zero_grad()  # type: ignore[attr-defined]
        give_back()
        return norm

    def prepare_model_inputs(self, micro_batch: TensorDict) -> tuple[dict[str, Any], dict[str, Any]]:
        """Drop mask and positions, so that torch computes only the causal half of the attention
        matrix.

        Rows are padded on the right, which causal attention does not read.
        """
        inputs, outputs = super().prepare_model_inputs(micro_batch)  # type: ignore[misc]
        if not tu.get_non_tensor_data(data=micro_batch, key="use_remove_padding", default=True):
            inputs |= {"attention_mask": None, "position_ids": None}
        return inputs, outputs

    def _build_fsdp_module(self, module: Any) -> Any:
        """Build without offloading: verl offloads a reference policy to pinned memory, which needs
        an accelerator.
        """
        round_less(module)
        no_offload = replaced(transformer_impl, "CPUOffloadPolicy", lambda **_: None)
        with no_offload, replaced(transformer_impl, "MixedPrecisionPolicy", _weights_only):
            return super()._build_fsdp_module(module)  # type: ignore[misc]


@EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cpu")
class CpuLanguageModel(PackedLogits, _OnCpu, transformer_impl.FSDPEngineWithLMHead):
    """Logits are computed only before action tokens."""


def _weights_only(**settings: Any) -> MixedPrecisionPolicy:
    """Let FSDP cast weights only; it would round the hidden states before each layer."""
    return MixedPrecisionPolicy(**{**settings, "cast_forward_inputs": False})


@EngineRegistry.register(model_type="value_model", backend=["fsdp", "fsdp2"], device="cpu")
class CpuValueModel(PackedRows, _OnCpu, transformer_impl.FSDPEngineWithValueHead):
    def _build_module(self) -> Any:
        """The value head is initialised from the run's seed."""
        torch.manual_seed(int(os.environ.get("TURNGRID_SEED", "0")))
        with replaced(verl.utils.model, "load_valuehead_model", partial(with_heads, load_value_model)):
            return super()._build_module()


def load_value_model(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
    """Load a critic with a new head and "sdpa" attention, where verl asks for flash attention."""
    return load_whole(
        AutoModelForTokenClassification,
        local_path,
        head=("score.", "lm_head."),
        dtype=torch_dtype,
        config=model_config,
        trust_remote_code=trust_remote_code,
        attn_implementation="sdpa",
    )
