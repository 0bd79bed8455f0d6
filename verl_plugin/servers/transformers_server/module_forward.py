"""Forward pass over packed tokens through transformers' modules, for models with transformers'
attention interface.
"""

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface

from turngrid.verl_plugin.servers.transformers_server.packing import Packing

PACKED = "turngrid_packed"


class ModuleForward:
    """Equivalent to ``LlamaForward``, but calls the model's own modules."""

    def __init__(self, model: Any) -> None:
        self._model = model
        model.set_attn_implementation(PACKED)

    def __call__(self, ids: torch.Tensor, packing: Packing) -> torch.Tensor:
        places = {"position_ids": packing.positions[None], "logits_to_keep": packing.last, "packing": packing}
        return self._model(input_ids=ids[None], use_cache=False, **places).logits[0]


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    *,
    packing: Packing,
    scaling: float | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention function that follows the packing.

    Shapes as in transformers: (1, heads, tokens, head size) -> (1, tokens, heads, head size).
    """
    layer: Any = module.layer_idx
    packing.write(layer, key[0].transpose(0, 1), value[0].transpose(0, 1))
    return packing.attend(layer, query[0].transpose(0, 1), scaling)[None], None


def _no_mask(*_: Any, **__: Any) -> None:
    """Build no mask, since the packing has one."""


AttentionInterface.register(PACKED, packed_attention)
AttentionMaskInterface.register(PACKED, _no_mask)
