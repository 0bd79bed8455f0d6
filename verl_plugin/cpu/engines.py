"""verl's FSDP2 engines on CPUs, whose updates compute no row that changes nothing.

verl cuts a batch into micro-batches in the order of its rows and pads each to its longest row. Here
rows with a common prefix share a micro-batch if that prefix is computed once (``packed_rows``),
else rows of similar length do. Two kinds of rows are left out:

- Rows without an action token, with which verl pads a batch: no loss or metric reads them.
- In a policy update, rows whose advantage is 0 everywhere, if ``zero_advantages`` allows it. Their
  gradient is 0. For some losses, only micro-batches that consist of such rows are left out.

A loss is still divided by all tokens of the mini-batch, so the update is the same.
"""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import verl.utils.model
from tensordict import TensorDict
from torch import Tensor
from torch.distributed.fsdp import MixedPrecisionPolicy
from transformers import AutoModelForTokenClassification
from verl.utils import tensordict_utils as tu
from verl.workers.engine.base import EngineRegistry
from verl.workers.engine.fsdp import transformer_impl

from turngrid.records.models.locate import load_whole
from turngrid.verl_plugin.bf16 import round_less
from turngrid.verl_plugin.changes import replaced
from turngrid.verl_plugin.cpu.layout import ids_of
from turngrid.verl_plugin.cpu.packed_rows import PackedLogits, PackedRows
from turngrid.verl_plugin.threads import give_back, threads
from turngrid.verl_plugin.training import zero_advantages
from turngrid.verl_plugin.training.losses import SEQUENCES
from turngrid.verl_plugin.value_heads import with_heads

Passes = tuple[list[TensorDict], Any]
BY_IDS = "passes_by_ids"  # batch key: a common prefix of rows in a micro-batch is computed once


class _OnCpu:
    """What both engines change.

    Until verl runs on CPUs.
    """

    def initialize(self) -> None:
        """Build without offloading: verl offloads a reference policy to pinned memory, which needs
        an accelerator.
        """
        with replaced(transformer_impl, "CPUOffloadPolicy", lambda **_: None):
            super().initialize()  # type: ignore[misc]

    def forward_backward_batch(self, data: TensorDict, loss_function: Any, forward_only: bool = False) -> Any:
        """Run our own micro-batches.

        With several processes verl makes them, since all must have the same number. The number of
        threads is set here, because OpenMP stores it per calling thread and Ray calls from its own
        thread.
        """
        torch.set_num_threads(threads(self.model_config.hf_config, "TRAINER"))  # type: ignore[attr-defined]
        if self.get_data_parallel_size() > 1:  # type: ignore[attr-defined]
            return super().forward_backward_batch(data, loss_function, forward_only)  # type: ignore[misc]
        tu.assign_non_tensor(data, **{BY_IDS: self.by_rows and "response_mask" in data})  # type: ignore[attr-defined]
        ours = partial(prepare, verls=transformer_impl.prepare_micro_batches)
        with replaced(transformer_impl, "prepare_micro_batches", ours):
            output = super().forward_backward_batch(data, loss_function, forward_only)  # type: ignore[misc]
        output["model_output"] = in_order(output["model_output"], data)
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
        """Let FSDP cast weights only; it would round the hidden states before each layer.

        Until verl has keys for that, and a hook between loading a model and sharding it.
        """
        round_less(module)
        with replaced(transformer_impl, "MixedPrecisionPolicy", _weights_only):
            return super()._build_fsdp_module(module)  # type: ignore[misc]


@EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cpu")
class CpuLanguageModel(PackedLogits, _OnCpu, transformer_impl.FSDPEngineWithLMHead):
    """Logits are computed only before action tokens."""


def _weights_only(**settings: Any) -> MixedPrecisionPolicy:
    """Let FSDP cast weights only; it would round the hidden states before each layer."""
    return MixedPrecisionPolicy(**{**settings, "cast_forward_inputs": False})


@EngineRegistry.register(model_type="value_model", backend=["fsdp", "fsdp2"], device="cpu")
class CpuValueModel(PackedRows, _OnCpu, transformer_impl.FSDPEngineWithValueHead):
    def initialize(self) -> None:
        """The value head is initialised from the run's seed.

        Until verl seeds a new head.
        """
        torch.manual_seed(int(os.environ.get("TURNGRID_SEED", "0")))
        with replaced(verl.utils.model, "load_valuehead_model", partial(with_heads, load_value_model)):
            super().initialize()


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


# ---- micro-batches


def prepare(data: TensorDict, verls: Callable[..., Passes], **settings: Any) -> Passes:
    """Leave out rows that change nothing, and put rows of one prefix or of similar length together.

    ``verls`` is verl's function, which fills micro-batches by tokens if ``use_dynamic_bsz``. It
    returns the micro-batches, and the indices with which verl restores their order.
    """
    rows = order_of_rows(data)
    if _dynamic(data):
        return verls(tu.index_select_tensor_dict(data, rows), **settings)
    together = tu.get_non_tensor_data(data, SEQUENCES, default=1) if tu.get_non_tensor_data(data, BY_IDS, False) else 1
    return _cut(data, rows, int(data["micro_batch_size_per_gpu"]) * together), None


def _cut(data: TensorDict, rows: list[int], size: int) -> list[TensorDict]:
    """Cut these rows, which are selected at once: each selection takes all jagged rows apart."""
    rest = len(rows) % size
    whole, left = rows[: len(rows) - rest], rows[len(rows) - rest :]
    passes = tu.chunk_tensordict(tu.index_select_tensor_dict(data, whole), len(whole) // size) if whole else []
    return [*passes, *([tu.index_select_tensor_dict(data, left)] if left else [])]


def in_order(outputs: dict[str, Tensor], data: TensorDict) -> dict[str, Tensor]:
    """Return jagged outputs of the micro-batches in the order of ``data``; rows left out are 0."""
    order, acted = order_of_rows(data), _with_an_action(data)
    lengths = data["input_ids"].offsets().diff().tolist()

    def of_all(output: Tensor) -> Tensor:
        known = {row: values for row, values in zip(order, output.unbind(), strict=True) if acted[row]}
        rows = [known[row] if row in known else output.values().new_zeros(size) for row, size in enumerate(lengths)]
        return torch.nested.as_nested_tensor(rows, layout=torch.jagged)

    return {name: of_all(output) for name, output in outputs.items()}


def order_of_rows(data: TensorDict) -> list[int]:
    """Return the rows to compute, ordered by ids or by length, or as they are if verl cuts them."""
    rows = rows_of_passes(data)
    if _dynamic(data):
        return rows
    if tu.get_non_tensor_data(data, BY_IDS, default=False):
        return _without_idle_passes(sorted(rows, key=ids_of(data["input_ids"]).__getitem__), data)
    lengths = data["input_ids"].offsets().diff().tolist()
    return _without_idle_passes(sorted(rows, key=lambda row: (lengths[row], row)), data)


def _without_idle_passes(rows: list[int], data: TensorDict) -> list[int]:
    """Leave out only whole micro-batches, and never all, so that the others keep their rows."""
    if tu.get_non_tensor_data(data, zero_advantages.KEY, default="") != zero_advantages.PASSES:
        return rows
    size, weighed = int(data["micro_batch_size_per_gpu"]), _with_an_advantage(data)
    passes = [rows[start : start + size] for start in range(0, len(rows), size)]
    learned = [one for one in passes if any(weighed[row] for row in one)] or passes[:1]
    return [row for one in learned for row in one]


def rows_of_passes(data: TensorDict) -> list[int]:
    """Return the rows that a loss or metric reads; if none, one row, preferably with an action."""
    acted = [row for row, acts in enumerate(_with_an_action(data)) if acts] or [0]
    if tu.get_non_tensor_data(data, zero_advantages.KEY, default="") != zero_advantages.ROWS:
        return acted
    weighed = _with_an_advantage(data)
    return [row for row in acted if weighed[row]] or acted[:1]


def _with_an_advantage(data: TensorDict) -> list[bool]:
    return [bool(row.any()) for row in data["advantages"].unbind()]


def _with_an_action(data: TensorDict) -> list[bool]:
    """SFT's rows have no response mask, and all count."""
    if "response_mask" not in data:
        return [True] * len(data)
    return [bool(row.any()) for row in data["response_mask"].unbind()]


def _dynamic(data: TensorDict) -> bool:
    return bool(tu.get_non_tensor_data(data, "use_dynamic_bsz", default=True))
