"""A model's last decoder layer, computed for the tokens that its head reads.

Nothing else looks at what the last layer says of a token, and the head reads the places before action tokens alone: some six in a
hundred. Keys and values, which those look at, are still computed for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.models.llama.modeling_llama import rotate_half

from verl_plugin.cpu.layout import Layout


def reads_few(layer: nn.Module) -> None:
    """A pass whose layout has a ``read`` gets those tokens alone from this layer, the last of a model of a kind that
    ``shared_prefixes`` knows; not by its ``__call__``, where FSDP gathers what it has sharded."""
    layer.forward = partial(_forward, layer, layer.forward)


def _forward(layer: Any, whole: Callable[..., Tensor], hidden: Tensor, *args: Any, **more: Any) -> Tensor:
    """(1, tokens, size) -> (1, tokens that are read, size)."""
    layout = more.get("layout")
    if layout is None or layout.read is None:
        return whole(hidden, *args, **more)
    attention, read = layer.self_attn, layout.read.places
    cos, sin = more["position_embeddings"]
    normed = layer.input_layernorm(hidden)
    key = _turned(attention, "k", normed, cos, sin)
    value = attention.v_proj(normed).unflatten(-1, (-1, attention.head_dim)).transpose(1, 2)
    query = _turned(attention, "q", normed[:, read], cos[:, read], sin[:, read])
    seen = torch.cat([*_looked(attention, query, key, value, layout)], dim=1)
    hidden = hidden[:, read] + attention.o_proj(seen.flatten(2))
    return hidden + layer.mlp(layer.post_attention_layernorm(hidden))


def _turned(attention: Any, name: str, normed: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Queries ("q") or keys ("k") with their rotary embedding, (1, heads, tokens, head size); Qwen3 has a norm before that."""
    heads = getattr(attention, f"{name}_proj")(normed).unflatten(-1, (-1, attention.head_dim))
    norm = getattr(attention, f"{name}_norm", None)
    heads = (heads if norm is None else norm(heads)).transpose(1, 2)
    return heads * cos[:, None] + rotate_half(heads) * sin[:, None]


def _looked(attention: Any, query: Tensor, key: Tensor, value: Tensor, layout: Layout) -> Iterator[Tensor]:
    """Of each row what its tokens see, (1, tokens, heads, head size)."""
    read, dropout = layout.read, attention.attention_dropout if attention.training else 0.0
    counts = torch.bincount(read.rows, minlength=len(layout.paths)).tolist()
    queries, columns = query.split(counts, dim=2), read.columns.split(counts)
    for row, (own, at) in enumerate(zip(queries, columns, strict=True)):
        if len(at):
            keys, values = (layout.of_row(row, states) for states in (key, value))
            mask = torch.arange(keys.shape[2]) <= at[:, None]
            yield sdpa_attention_forward(attention, own, keys, values, mask, dropout, attention.scaling)[0]
