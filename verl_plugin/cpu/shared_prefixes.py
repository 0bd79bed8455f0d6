"""A pass over rows laid end to end, without padding, in which what several rows begin with stands once.

The samples of a group have their prompt in common, and often their first turns, so what a model computes of those tokens one by
one (projections, norms, the MLP) is the same for all of them. Attention is transformers' own, a row at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask
from verl.utils import tensordict_utils as tu

from verl_plugin.cpu.last_layer import Read, reads_few
from verl_plugin.servers.transformers_server.key_values import common_length
from verl_plugin.servers.transformers_server.llama_forward import KINDS

BY_ROWS = "turngrid_rows"  # the name that transformers knows our attention by
QUERIES = 128
NOT_PADDED = ("use_remove_padding", "use_fused_kernels")  # verl's keys of passes that it lays out in other ways


def knows(config: Any) -> bool:
    """Is a model with this config computed so? The rows of others are padded."""
    full = set(getattr(config, "layer_types", None) or ()) <= {"full_attention"}
    return config.model_type in KINDS and full and config._attn_implementation == "sdpa"


@dataclass
class Layout:
    """Where the tokens of a pass stand.

    Attributes:
        sizes: of the parts, end to end.
        paths: of each row, its parts in their order.
        read: the tokens of which the last layer's output is read; None: all.
    """

    sizes: list[int]
    paths: list[list[int]]
    read: Read | None = None

    @classmethod
    def of(cls, rows: Sequence[list[int]]) -> Layout:
        """From the ids of each row."""
        layout = cls([], [[] for _ in rows])
        left = [(sorted(range(len(rows)), key=rows.__getitem__), 0)]
        while left:
            left += reversed(layout._lay(rows, *left.pop()))
        return layout

    def _lay(self, rows: Sequence[list[int]], chosen: Sequence[int], start: int) -> list[tuple[list[int], int]]:
        """What these rows, in the order of their ids, have in common from place ``start`` on; the rows that go on alike from there,
        and where that is, to be laid next."""
        end = common_length(rows[chosen[0]], rows[chosen[-1]])
        for row in chosen:
            self.paths[row].append(len(self.sizes))
        self.sizes.append(end - start)
        branches = groupby(chosen, key=lambda row: rows[row][end : end + 1])
        return [(list(branch), end) for next_id, branch in branches if next_id]

    def sizes_of(self, path: Sequence[int]) -> list[int]:
        return [self.sizes[part] for part in path]

    def of_row(self, row: int, states: Tensor) -> Tensor:
        """(1, heads, tokens of the pass, head size) -> the same of this row's tokens."""
        parts = states.split(self.sizes, dim=2)
        return torch.cat([parts[part] for part in self.paths[row]], dim=2)

    @cached_property
    def lengths(self) -> Tensor:
        """Of each row."""
        return torch.tensor([sum(self.sizes_of(path)) for path in self.paths])

    @cached_property
    def places(self) -> Tensor:
        """Of each row's tokens in the pass, (rows, most tokens); a short row ends with 0."""
        parts = torch.arange(sum(self.sizes)).split(self.sizes)
        return pad_sequence([torch.cat([parts[part] for part in path]) for path in self.paths], batch_first=True)

    @cached_property
    def hidden(self) -> Tensor:
        """What to add to scores (query, key) of a row: minus infinity where a key comes after its query."""
        longest = int(self.lengths.max())
        return torch.full((longest, longest), -torch.inf).triu_(1)

    def packed(self, padded: Tensor) -> Tensor:
        """(rows, most tokens) -> (1, tokens of the pass)."""
        real = torch.arange(padded.shape[1]) < self.lengths[:, None]
        found = padded.new_zeros(1, sum(self.sizes))
        found[0, self.places[real]] = padded[real]
        return found


def ids_of(input_ids: Tensor) -> list[list[int]]:
    """Jagged (rows, tokens) -> a list a row."""
    return [row.tolist() for row in input_ids.unbind()]


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
    settings["hidden"] = layout.hidden.to(query.dtype)
    queries, seen = query.split(layout.sizes, dim=2), {}
    for row, path in enumerate(layout.paths):
        if new := [
            part for part in path if part not in seen
        ]:  # what a row has in common with one before it comes first
            states = (
                torch.cat([queries[part] for part in new], dim=2),
                layout.of_row(row, key),
                layout.of_row(row, value),
            )
            found = torch.cat([*_blocks(module, *states, **settings)], dim=1)
            seen |= zip(new, found.split(layout.sizes_of(new), dim=1), strict=True)
    return torch.cat([seen[part] for part in range(len(layout.sizes))], dim=1), None


def _blocks(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, hidden: Tensor, **settings: Any
) -> Iterator[Tensor]:
    """What a row's last tokens see, some at a time and no key after the last of them: torch's own attention for CPUs skips none of
    the 512 keys that it takes at a time."""
    end = key.shape[2] - query.shape[2]
    for queries in query.split(QUERIES, dim=2):
        start, end = end, end + queries.shape[2]
        mask = hidden[start:end, :end] if start else None
        yield sdpa_attention_forward(module, queries, key[:, :, :end], value[:, :, :end], mask, **settings)[0]


AttentionInterface.register(BY_ROWS, attention)
AttentionMaskInterface.register(BY_ROWS, sdpa_mask)
