"""A pass over rows laid end to end, without padding, in which a prompt that several rows begin with stands once.

The samples of a group differ after their prompt only, so what a model computes of a prompt's tokens one by one (projections,
norms, the MLP) is the same for all of them. Attention is transformers' own, a row at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask
from verl.utils import tensordict_utils as tu

from verl_plugin.servers.transformers_server.llama_forward import KINDS

BY_ROWS = "turngrid_rows"  # the name that transformers knows our attention by
NOT_PADDED = ("use_remove_padding", "use_fused_kernels")  # verl's keys of passes that it lays out in other ways


def knows(config: Any) -> bool:
    """Is a model with this config computed so? The rows of others are padded."""
    full = set(getattr(config, "layer_types", None) or ()) <= {"full_attention"}
    return config.model_type in KINDS and full and config._attn_implementation == "sdpa"


def prompts_of(input_ids: Tensor, response_mask: Tensor) -> list[tuple[int, ...]]:
    """What stands before each row's response. Both are jagged (rows, tokens)."""
    lengths = response_mask.offsets().diff().tolist()
    return [tuple(ids[: len(ids) - length].tolist()) for ids, length in zip(input_ids.unbind(), lengths, strict=True)]


@dataclass(frozen=True)
class Layout:
    """Where the tokens of a pass stand.

    Attributes:
        sizes: of the parts, end to end: a prompt, what its first row goes on with, its second row, ...
        rows: of each row, the number of the part that is its prompt, and of the one that is its own.
    """

    sizes: Sequence[int]
    rows: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, input_ids: Tensor, response_mask: Tensor) -> Layout:
        sizes: list[int] = []
        rows: list[tuple[int, int]] = []
        begun: dict[tuple[int, ...], int] = {}
        own = response_mask.offsets().diff().tolist()
        for prompt, length in zip(prompts_of(input_ids, response_mask), own, strict=True):
            if prompt not in begun:
                begun[prompt] = len(sizes)
                sizes.append(len(prompt))
            rows.append((begun[prompt], len(sizes)))
            sizes.append(length)
        return cls(sizes, rows)

    @cached_property
    def lengths(self) -> Tensor:
        """Of each row, its prompt included."""
        return torch.tensor([self.sizes[prompt] + self.sizes[own] for prompt, own in self.rows])

    @cached_property
    def places(self) -> Tensor:
        """Of each row's tokens in the pass, (rows, most tokens); a short row ends with 0."""
        parts = torch.arange(sum(self.sizes)).split(list(self.sizes))
        return pad_sequence([torch.cat([parts[prompt], parts[own]]) for prompt, own in self.rows], batch_first=True)

    def packed(self, padded: Tensor) -> Tensor:
        """(rows, most tokens) -> (1, tokens of the pass)."""
        real = torch.arange(padded.shape[1]) < self.lengths[:, None]
        found = padded.new_zeros(1, sum(self.sizes))
        found[0, self.places[real]] = padded[real]
        return found


class SharedPrompts:
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
        return Layout.of(micro_batch["input_ids"], mask)

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
    parts = [tensor.split(list(layout.sizes), dim=2) for tensor in (query, key, value)]
    seen: dict[int, Tensor] = {}
    for prompt, own in layout.rows:
        queries, keys, values = (torch.cat([part[prompt], part[own]], dim=2) for part in parts)
        found, _ = sdpa_attention_forward(module, queries, keys, values, None, **settings)
        of_prompt, seen[own] = found.split([layout.sizes[prompt], layout.sizes[own]], dim=1)
        seen.setdefault(prompt, of_prompt)
    return torch.cat([seen[part] for part in range(len(seen))], dim=1), None


AttentionInterface.register(BY_ROWS, attention)
AttentionMaskInterface.register(BY_ROWS, sdpa_mask)
