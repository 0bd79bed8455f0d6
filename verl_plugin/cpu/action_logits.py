"""The language-model head, or a critic's, on action tokens only.

Of a multi-turn row, some six tokens in a hundred were sampled; the rest are observations, whose log-probabilities enter
no loss and no metric. verl's padded path computes logits, log-probabilities and entropy for all of them, which on a CPU
takes more time than the model below the head. Here the head sees the positions before action tokens and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from torch.nn.functional import cross_entropy
from verl.utils import tensordict_utils as tu
from verl.utils import torch_functional as verl_F

from verl_plugin.cpu.layout import Read

NOT_OURS = ("use_remove_padding", "use_fused_kernels", "calculate_sum_pi_squared", "distillation_use_topk")


@dataclass(frozen=True)
class Positions:
    """Where the next token is an action token: rows and columns of the padded batch, places in the packed one."""

    rows: Tensor
    columns: Tensor
    packed: Tensor


def action_positions(input_ids: Tensor, response_mask: Tensor) -> Positions:
    """From two jagged tensors: whole rows, and the mask over each row's response at its end."""
    starts, lengths = input_ids.offsets()[:-1], input_ids.offsets().diff()
    mask_starts, mask_lengths = response_mask.offsets()[:-1], response_mask.offsets().diff()
    chosen = response_mask.values().nonzero().squeeze(1)
    rows = torch.searchsorted(mask_starts, chosen, right=True) - 1
    columns = lengths[rows] - mask_lengths[rows] + (chosen - mask_starts[rows]) - 1
    return Positions(rows, columns, starts[rows] + columns)


class ActionLogits:
    """Mixed into an FSDP engine with a language-model head; leaves everything else to verl."""

    _positions: Positions | None = None

    def _build_fsdp_module(self, module: Any) -> Any:
        built = super()._build_fsdp_module(module)  # type: ignore[misc]
        built.lm_head.register_forward_pre_hook(self._select)
        return built

    def _select(self, head: Any, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        where, layout = self._positions, getattr(self, "_layout", None)
        if where is None:
            return arguments
        hidden = arguments[0]
        return (hidden[where.rows, where.columns] if layout is None else hidden[0, layout.read.index],)

    def prepare_model_inputs(self, micro_batch: TensorDict) -> tuple[dict[str, Any], dict[str, Any]]:
        self._positions = (
            action_positions(micro_batch["input_ids"], micro_batch["response_mask"]) if _ours(micro_batch) else None
        )
        prepared = super().prepare_model_inputs(micro_batch)  # type: ignore[misc]
        if (where := self._positions) is not None and (layout := getattr(self, "_layout", None)) is not None:
            layout.read = Read.of(layout, where.rows, where.columns)
        return prepared

    def prepare_model_outputs(
        self, output: Any, output_args: dict[str, Any], micro_batch: TensorDict, logits_processor_func: Any
    ) -> dict[str, Tensor]:
        where, self._positions = self._positions, None
        if where is None:
            return super().prepare_model_outputs(output, output_args, micro_batch, logits_processor_func)  # type: ignore[misc]
        logits = output.logits / output_args["temperature"][where.rows, None]
        labels = output_args["input_ids_rmpad_rolled"][where.packed]
        results = {"log_probs": _log_probs(logits, labels)}
        if tu.get_non_tensor_data(data=micro_batch, key="calculate_entropy", default=False):
            results["entropy"] = verl_F.entropy_from_logits(logits)
        return {name: _spread(values, where, micro_batch["input_ids"]) for name, values in results.items()}


class ActionValues:
    """Mixed into an FSDP engine with a value head, before ``SharedPrefixes``: values of other tokens are 0, and nothing reads them."""

    def prepare_model_inputs(self, micro_batch: TensorDict) -> tuple[dict[str, Any], dict[str, Any]]:
        prepared = super().prepare_model_inputs(micro_batch)  # type: ignore[misc]
        if layout := self._layout:  # type: ignore[attr-defined]
            where = action_positions(micro_batch["input_ids"], micro_batch["response_mask"])
            layout.read = Read.of(layout, where.rows, where.columns)
        return prepared

    def prepare_model_outputs(
        self, output: Any, output_args: dict[str, Any], micro_batch: TensorDict, logits_processor_func: Any
    ) -> dict[str, Tensor]:
        if layout := self._layout:  # type: ignore[attr-defined]
            everywhere = output.logits.new_zeros(1, sum(layout.sizes), output.logits.shape[2])
            output.logits = everywhere.index_copy(1, layout.read.places, output.logits)
        return super().prepare_model_outputs(output, output_args, micro_batch, logits_processor_func)  # type: ignore[misc]


def _ours(micro_batch: TensorDict) -> bool:
    """RL rows on verl's padded path; not SFT's, which has no response mask."""
    if any(tu.get_non_tensor_data(data=micro_batch, key=key, default=False) for key in NOT_OURS):
        return False
    mask = micro_batch.get("response_mask", None)
    return mask is not None and mask.is_nested


def _log_probs(logits: Tensor, labels: Tensor) -> Tensor:
    """Of all in one call, where verl's, without flash attention, has a loop with an autograd node a token. A pass without an
    action token is run where several processes train, so that all run the same number; its outputs are 0 and have a gradient,
    of 0."""
    return -cross_entropy(logits, labels, reduction="none") if len(labels) else logits.sum(dim=-1)


def _spread(values: Tensor, where: Positions, like: Tensor) -> Tensor:
    """Action tokens' values at their places in rows that are 0 elsewhere."""
    packed = values.new_zeros(like.values().shape[0]).index_put((where.packed,), values)
    return torch.nested.nested_tensor_from_jagged(packed, like.offsets())
