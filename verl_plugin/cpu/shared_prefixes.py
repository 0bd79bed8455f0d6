"""A pass over rows laid end to end, without padding, in which what several rows begin with stands once.

The samples of a group have their prompt in common, and often their first turns, so what a model computes of those tokens one by
one (projections, norms, the MLP) is the same for all of them. Attention is transformers' own, a row at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask
from verl.utils import tensordict_utils as tu

from verl_plugin.cpu.last_layer import reads_few
from verl_plugin.cpu.layout import Layout, ids_of
from verl_plugin.servers.transformers_server.llama_forward import KINDS

BY_ROWS = "turngrid_rows"  # the name that transformers knows our attention by
QUERIES = 128  # of a row that look at once
NOT_PADDED = ("use_remove_padding", "use_fused_kernels")  # verl's keys of passes that it lays out in other ways


def knows(config: Any) -> bool:
    """Is a model with this config computed so? The rows of others are padded."""
    full = set(getattr(config, "layer_types", None) or ()) <= {"full_attention"}
    return config.model_type in KINDS and full and config._attn_implementation == "sdpa"


class SharedPrefixes:
    """Mixed into an FSDP engine; leaves models and passes of another kind to it.

    Attributes:
        by_rows: is the model of a kind that is known?
    """

    by_rows = False
    _layout: Layout | None = None

    def _build_fsdp_module(self, module: Any) -> Any:
        if knows(module.config):
            self.by_rows = True
            module.set_attn_implementation(BY_ROWS)
            reads_few(module.get_decoder().layers[-1])
        return super()._build_fsdp_module(module)  # type: ignore[misc]

    def prepare_model_inputs(self, micro_batch: TensorDict) -> tuple[dict[str, Any], dict[str, Any]]:
        inputs, outputs = super().prepare_model_inputs(micro_batch)  # type: ignore[misc]
        self._layout = self._layout_of(micro_batch)
        if self._layout is None:
            return inputs, outputs
        ids = self._layout.packed(inputs["input_ids"])
        positions = self._layout.packed(torch.arange(inputs["input_ids"].shape[1]).expand_as(inputs["input_ids"]))
        unread = ids.new_zeros(1, 1, 1, 1)  # where a mask is there already, transformers makes none
        return inputs | {
            "input_ids": ids,
            "position_ids": positions,
            "attention_mask": unread,
            "layout": self._layout,
        }, outputs

    def _layout_of(self, micro_batch: TensorDict) -> Layout | None:
        mask = micro_batch.get("response_mask", None)
        other = any(tu.get_non_tensor_data(data=micro_batch, key=key, default=False) for key in NOT_PADDED)
        if other or not self.by_rows or mask is None or not mask.is_nested:
            return None
        return Layout.of(ids_of(micro_batch["input_ids"]))

    def prepare_model_outputs(self, output: Any, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        """From the logits (rows, most tokens, anything) that verl expects."""
        if self._layout is not None:
            output.logits = output.logits[0][self._layout.places]
        return super().prepare_model_outputs(output, *args, **kwargs)  # type: ignore[misc]


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
    """As transformers' functions of this kind: (1, heads, tokens, head size) -> (1, tokens, heads, head size). Without a
    ``layout`` it is "sdpa"."""
    if layout is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **settings)
    mask, queries, seen = _mask(layout, query), query.split(layout.sizes, dim=2), {}
    for row, path in enumerate(layout.paths):
        if new := [part for part in path if part not in seen]:  # the row's last: what others have too comes first
            asked = torch.cat([queries[part] for part in new], dim=2)
            keys, values = layout.of_row(row, key), layout.of_row(row, value)
            found = torch.cat([*_blocks(module, asked, keys, values, mask, **settings)], dim=1)
            seen |= zip(new, found.split(layout.sizes_of(new), dim=1), strict=True)
    return torch.cat([seen[part] for part in range(len(layout.sizes))], dim=1), None


def _mask(layout: Layout, like: Tensor) -> Tensor:
    """As wide as any block of queries may need: each takes the part that begins with its row."""
    longest = int(layout.lengths.max())
    return like.new_full((QUERIES, longest + QUERIES), -torch.inf).triu_(longest + 1)


def _blocks(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, **settings: Any
) -> Iterator[Tensor]:
    """What a row's last tokens see, some at a time and no key after the last of them: torch's own attention for CPUs skips none of
    the 512 keys that it takes at a time."""
    end, longest = key.shape[2] - query.shape[2], mask.shape[1] - len(mask)
    for queries in query.split(QUERIES, dim=2):
        start, end = end, end + queries.shape[2]
        own = mask[: end - start, longest - start : longest - start + end] if start else None
        yield sdpa_attention_forward(module, queries, key[:, :, :end], value[:, :, :end], own, **settings)[0]


AttentionInterface.register(BY_ROWS, attention)
AttentionMaskInterface.register(BY_ROWS, sdpa_mask)
