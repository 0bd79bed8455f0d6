"""Forward passes on CPUs without padding, in which a common prefix of rows is computed once.

Samples of a group share their prompt and often their first turns. Projections, norms and the MLP of
such tokens are the same for all rows. Attention runs row by row, with transformers' own function.
Logits are computed only before action tokens, about 6 % of a multi-turn row: on a CPU the others
would take more time than the model below the head.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask
from verl.utils import tensordict_utils as tu
from verl.utils import torch_functional as verl_F

from turngrid.records.models.shape import LLAMA_LIKE
from turngrid.verl_plugin.bf16 import attend
from turngrid.verl_plugin.cpu.layout import Layout, ids_of

BY_ROWS = "turngrid_rows"  # name of this attention in transformers' registry
QUERIES = 128  # of a row in one call: torch's attention for CPUs skips no key of the 512 that it takes at a time
LEFT_TO_VERL = ("use_remove_padding", "use_fused_kernels", "calculate_sum_pi_squared")


def knows(config: Any) -> bool:
    """Return whether a model with this config can run packed; verl pads the rows of others."""
    full = set(getattr(config, "layer_types", None) or ()) <= {"full_attention"}
    return config.model_type in LLAMA_LIKE and full and config._attn_implementation == "sdpa"


class PackedRows:
    """Run rows without padding: a mixin for an FSDP engine, before ``FSDPEngineWithValueHead``.

    Until verl runs rows on CPUs without padding, and a common prefix of them once.
    """

    by_rows = False  # whether the model runs packed
    _layout: Layout | None = None

    def _build_fsdp_module(self, module: Any) -> Any:
        """Choose the attention, which a sharded model of transformers cannot change.

        Until verl has a hook between loading a model and sharding it.
        """
        self.by_rows = knows(module.config)
        if self.by_rows:
            module.set_attn_implementation(BY_ROWS)
        return super()._build_fsdp_module(module)  # type: ignore[misc]

    def prepare_model_inputs(self, micro_batch: TensorDict) -> tuple[dict[str, Any], dict[str, Any]]:
        inputs, outputs = super().prepare_model_inputs(micro_batch)  # type: ignore[misc]
        self._layout = Layout.of(ids_of(micro_batch["input_ids"])) if self._packs(micro_batch) else None
        return inputs | self._packed_inputs(micro_batch), outputs

    def _packs(self, micro_batch: TensorDict) -> bool:
        """Return whether to pack: jagged rows on verl's padded path."""
        other = any(tu.get_non_tensor_data(data=micro_batch, key=key, default=False) for key in LEFT_TO_VERL)
        mask = self._mask_of(micro_batch)
        return self.by_rows and not other and mask is not None and mask.is_nested

    def _mask_of(self, micro_batch: TensorDict) -> Tensor | None:
        """Return the mask of the trained tokens. SFT's rows have no response mask.

        In fp32 verl pads those, so that SFT's earlier models repeat bit by bit.
        """
        half = (self.engine_config.mixed_precision or {}).get("param_dtype") == "bf16"  # type: ignore[attr-defined]
        return micro_batch.get("response_mask", micro_batch["loss_mask"] if half else None)

    def _packed_inputs(self, micro_batch: TensorDict) -> dict[str, Any]:
        if self._layout is None:
            return {}
        ids, positions = (torch.tensor([numbers]) for numbers in (self._layout.ids, self._layout.positions))
        unread = ids.new_zeros(1, 1, 1, 1)  # a given mask keeps transformers from building one; it is not read
        return {"input_ids": ids, "position_ids": positions, "attention_mask": unread, "layout": self._layout}

    def prepare_model_outputs(self, output: Any, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        """Pad the head's output to (rows, longest row, ...), which verl expects."""
        if self._layout is not None:
            output.logits = output.logits[0][self._layout.places]
        return super().prepare_model_outputs(output, *args, **kwargs)  # type: ignore[misc]


class PackedLogits(PackedRows):
    """Compute logits only before action tokens: a mixin for an FSDP engine, placed before
    ``FSDPEngineWithLMHead``.

    Until verl computes no others.
    """

    _positions: Positions

    def _packed_inputs(self, micro_batch: TensorDict) -> dict[str, Any]:
        inputs = super()._packed_inputs(micro_batch)
        if self._layout is None:
            return inputs
        self._positions = where = action_positions(micro_batch["input_ids"], self._mask_of(micro_batch))
        return inputs | {"logits_to_keep": self._layout.places[where.rows, where.columns]}

    def prepare_model_outputs(
        self, output: Any, output_args: dict[str, Any], micro_batch: TensorDict, logits_processor_func: Any
    ) -> dict[str, Tensor]:
        if self._layout is None:
            return super().prepare_model_outputs(output, output_args, micro_batch, logits_processor_func)
        where = self._positions
        logits = output.logits[0] / output_args["temperature"][where.rows, None]  # in fp32, as the temperatures are
        results = {"log_probs": _log_probs(logits, output_args["input_ids_rmpad_rolled"][where.flat])}
        if tu.get_non_tensor_data(data=micro_batch, key="calculate_entropy", default=False):
            results["entropy"] = verl_F.entropy_from_logits(logits)
        return {name: _spread(values, where, micro_batch["input_ids"]) for name, values in results.items()}


@dataclass(frozen=True)
class Positions:
    """Positions of the tokens that are followed by an action token."""

    rows: Tensor  # this and the next: indices into the padded batch
    columns: Tensor
    flat: Tensor  # indices into all rows end to end


def action_positions(input_ids: Any, mask: Any) -> Positions:
    """Return the positions before action tokens.

    Args:
        input_ids: jagged, whole rows.
        mask: jagged, over the end of each row: the response, or in SFT the whole row.
    """
    starts, lengths = input_ids.offsets()[:-1], input_ids.offsets().diff()
    mask_starts, mask_lengths = mask.offsets()[:-1], mask.offsets().diff()
    chosen = mask.values().nonzero().squeeze(1)
    rows = torch.searchsorted(mask_starts, chosen, right=True) - 1
    columns = lengths[rows] - mask_lengths[rows] + (chosen - mask_starts[rows]) - 1
    return Positions(rows, columns, starts[rows] + columns)


def _log_probs(logits: Tensor, labels: Tensor) -> Tensor:
    """Return log-probabilities in one call.

    Without flash attention, verl loops over tokens with an autograd node each. A micro-batch
    without an action token still runs if several processes train; its outputs have a gradient of 0.
    """
    return -cross_entropy(logits, labels, reduction="none") if len(labels) else logits.sum(dim=-1)


def _spread(values: Tensor, where: Positions, like: Any) -> Tensor:
    flat = values.new_zeros(like.values().shape[0]).index_put((where.flat,), values)
    return torch.nested.nested_tensor_from_jagged(flat, like.offsets())


def attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    layout: Layout | None = None,
    **settings: Any,
) -> tuple[Tensor, None]:
    """Run transformers' "sdpa", row by row if there is a layout.

    Shapes as in transformers: (1, heads, tokens, head size) -> (1, tokens, heads, head size).
    """
    if layout is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **settings)
    mask, queries = _mask(layout, query), query.split(layout.sizes, dim=2)
    seen: dict[int, Tensor] = {}
    for row, path in enumerate(layout.paths):
        if new := [part for part in path if part not in seen]:  # a row's shared parts come first
            asked = torch.cat([queries[part] for part in new], dim=2)
            keys, values = layout.of_row(row, key), layout.of_row(row, value)
            blocks = torch.cat([*_blocks(module, asked, keys, values, mask, **settings)], dim=1)
            seen |= zip(new, blocks.split(layout.sizes_of(new), dim=1), strict=True)
    return torch.cat([seen[part] for part in range(len(layout.sizes))], dim=1), None


def _mask(layout: Layout, like: Tensor) -> Tensor:
    """Return one mask as wide as the longest row; a block uses the part from its row on."""
    longest = layout.longest
    return like.new_full((QUERIES, longest + QUERIES), -torch.inf).triu_(longest + 1)


def _blocks(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, **settings: Any
) -> Iterator[Tensor]:
    """Yield the attention of a row's last tokens over all keys before, ``QUERIES`` at a time."""
    end, longest = key.shape[2] - query.shape[2], mask.shape[1] - len(mask)
    for queries in query.split(QUERIES, dim=2):
        start, end = end, end + queries.shape[2]
        own = mask[: end - start, longest - start : longest - start + end]
        yield _block(module, queries, key[:, :, :end], value[:, :, :end], own, **settings)


def _block(module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, **settings: Any) -> Tensor:
    """Return (1, tokens, heads, head size); in bf16 query heads of a key head become its tokens."""
    if query.dtype != torch.bfloat16:
        first = query.shape[2] == key.shape[2]  # then torch computes only the causal half
        return sdpa_attention_forward(module, query, key, value, None if first else mask, **settings)[0]
    sharing = query.shape[1] // key.shape[1]
    side_by_side = query.reshape(1, key.shape[1], -1, query.shape[3])
    seen = attend(side_by_side, key, value, mask.repeat(sharing, 1), settings.get("scaling"))
    return seen.reshape(query.shape).transpose(1, 2)


AttentionInterface.register(BY_ROWS, attention)
AttentionMaskInterface.register(BY_ROWS, sdpa_mask)
